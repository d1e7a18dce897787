"""Validates a site's settings, for all sources."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import orjson
from msgspec.structs import replace

from pollerd.api.http.access import check_access
from pollerd.errors import InvalidValueError
from pollerd.model import SiteSpec, TagSettings
from pollerd.rendering.settings import DEFAULT_RENDER_COST
from pollerd.site_settings import INHERITED, SITE
from pollerd.urls import normalise_url

MAX_TAGS = 64
MAX_TAG_LENGTH = 64
MAX_TITLE_LENGTH = 200
_numbers = attrgetter(*SITE)
_UNSET = (None,) * len(SITE)


def check_spec(spec: SiteSpec) -> SiteSpec:
    """Returns the spec with its URL normalised and its tags trimmed and deduplicated.

    Numbers are in the ranges of `SITE`, min_interval at most max_interval; 64 tags of 64 characters; access as in
    `check_access`. Raises `InvalidValueError`, naming the field.
    """
    numbers = _numbers(spec)
    if numbers != _UNSET:  # most sites of a list have only a URL
        for allowed, value in zip(SITE.values(), numbers, strict=True):
            if value is not None:
                allowed.check(value)
        _check_intervals(spec)
    tags = _tags(spec.tags) if spec.tags else ()
    access = check_access(spec.access) if spec.access else spec.access
    selections = check_selections(orjson.loads(spec.selections)) if spec.selections else ""
    if len(spec.title) > MAX_TITLE_LENGTH or not (spec.title.isprintable() or not spec.title):
        raise InvalidValueError("title", f"at most {MAX_TITLE_LENGTH} printable characters", spec.title[:100])
    cost = DEFAULT_RENDER_COST if spec.render and spec.cost is None else spec.cost
    url = normalise_url(spec.url)
    return replace(spec, url=url, cost=cost, tags=tags, access=access, selections=selections)


def check_tag_settings(tag: TagSettings) -> TagSettings:
    """Returns the settings of a tag, checked as those of a site. Raises `InvalidValueError`, naming the field."""
    settings: dict[str, Any] = {name: tag.settings[name] for name in INHERITED if name in tag.settings}
    checked = check_spec(SiteSpec("http://tag/", access=tag.access, **settings))
    if checked.render:
        settings["cost"] = checked.cost
    return replace(tag, name=check_tag(tag.name, "name"), settings=settings, access=checked.access)


def _check_intervals(spec: SiteSpec) -> None:
    if spec.min_interval is not None and spec.max_interval is not None and spec.min_interval > spec.max_interval:
        raise InvalidValueError("max_interval", f"at least min_interval ({spec.min_interval:g} s)", spec.max_interval)


def check_selections(given: object) -> str:
    """Returns settings of selections by name as `SiteSpec` holds them. Raises `InvalidValueError` with the position."""
    if given is None or given == {}:
        return ""
    from pollerd.detection.selection.selections import canonical  # loaded with the first site that has some

    return canonical(given)


def _tags(given: Iterable[str]) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(tag.strip() for tag in given))
    if len(tags) > MAX_TAGS:
        raise InvalidValueError("tags", f"at most {MAX_TAGS}", f"{len(tags)} tags")
    for tag in tags:
        check_tag(tag, "tags")
    return tags


def check_tag(given: str, field: str = "tag") -> str:
    """Returns the tag, trimmed. Raises `InvalidValueError` for an invalid one."""
    tag = given.strip()
    # A semicolon separates tags in CSV.
    if not (0 < len(tag) <= MAX_TAG_LENGTH and tag.isprintable() and ";" not in tag):
        allowed = f"words of 1 to {MAX_TAG_LENGTH} printable characters without ';'"
        raise InvalidValueError(field, allowed, tag[: MAX_TAG_LENGTH + 1])
    return tag
