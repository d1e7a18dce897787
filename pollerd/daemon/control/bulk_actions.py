"""What each action on many sites makes of a site's settings, and how that is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from pollerd.errors import InvalidValueError
from pollerd.model import JobAction, RespectTtl, SiteSpec
from pollerd.site_settings import INHERITED, Kind

_MOST_TAGS = 64
_NAMES: dict[JobAction, tuple[str, ...]] = {
    JobAction.PAUSE: ("paused",),
    JobAction.RESUME: ("paused",),
    JobAction.TAG: ("tags",),
    JobAction.UNTAG: ("tags",),
    **{
        action: tuple(name for name, one in INHERITED.items() if one.bulk == action)
        for action in (JobAction.WEIGHT, JobAction.LIMITS)
    },
}
"""Settings that an action changes."""
_TRUSTS = frozenset(name for name, one in INHERITED.items() if one.kind is Kind.TRUST)


def after(action: JobAction, value: Mapping[str, Any], spec: SiteSpec) -> SiteSpec:
    """Returns the settings after the action. Raises InvalidValueError if the site cannot have them."""
    match action:
        case JobAction.PAUSE | JobAction.RESUME:
            return replace(spec, paused=action is JobAction.PAUSE)
        case JobAction.TAG:
            return _tagged(spec, value["tag"])
        case JobAction.UNTAG:
            return replace(spec, tags=tuple(tag for tag in spec.tags if tag != value["tag"]))
        case JobAction.WEIGHT:
            return replace(spec, weight=value["weight"])
        case JobAction.LIMITS:
            return _limited(replace(spec, **_typed(value)))
        case JobAction.DELETE | JobAction.POLL:
            return spec


def _tagged(spec: SiteSpec, tag: str) -> SiteSpec:
    if tag in spec.tags:
        return spec
    if len(spec.tags) >= _MOST_TAGS:
        raise InvalidValueError("tags", f"at most {_MOST_TAGS}", f"{_MOST_TAGS + 1} tags")
    return replace(spec, tags=(*spec.tags, tag))


def _limited(spec: SiteSpec) -> SiteSpec:
    shortest, longest = spec.min_interval, spec.max_interval
    if shortest is not None and longest is not None and shortest > longest:
        raise InvalidValueError("max_interval", f"at least min_interval ({shortest:g} s)", longest)
    return spec


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of settings with their types, which the JSON of a job does not keep."""
    trusts = {name: value for name, value in values.items() if name in _TRUSTS and value is not None}
    return {**values, **{name: RespectTtl(value) for name, value in trusts.items()}}


def before(action: JobAction, spec: SiteSpec) -> dict[str, Any]:
    """Returns what is kept of a site's settings, so that the action can be taken back."""
    return {name: getattr(spec, name) for name in _NAMES.get(action, ())}


def taken_back(action: JobAction, value: Mapping[str, Any], kept: Mapping[str, Any], spec: SiteSpec) -> SiteSpec:
    """Returns the settings without what the action did; what was changed since then stays as it is.

    kept: as `before` returned it.
    """
    was: dict[str, Any] = {name: tuple(v) if name == "tags" else v for name, v in kept.items()}
    match action:
        case JobAction.TAG:
            return replace(spec, tags=tuple(tag for tag in spec.tags if tag != value["tag"]))
        case JobAction.UNTAG:
            return replace(spec, tags=_with_tag(spec.tags, value["tag"], was["tags"]))
        case _:
            did = {"paused": action is JobAction.PAUSE} if "paused" in was else value
            mine = {name: was[name] for name in was if name in did and getattr(spec, name) == did[name]}
            return replace(spec, **_typed(mine))


def _with_tag(tags: tuple[str, ...], tag: str, was: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the tags with this one: in its former place, if they are otherwise what they were."""
    if tag in tags:
        return tags
    return was if tuple(one for one in was if one != tag) == tags else (*tags, tag)
