"""Validates a site's settings, for all sources."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from pollerd.api.http.access import check_access
from pollerd.errors import InvalidValueError
from pollerd.model import SiteSpec
from pollerd.ranges import SITE
from pollerd.urls import normalise_url

MAX_TAGS = 64
MAX_TAG_LENGTH = 64
_WEIGHT, _COST, _MIN_YIELD, _HALF_LIFE = SITE["weight"], SITE["cost"], SITE["min_yield"], SITE["half_life"]
_MIN_INTERVAL, _MAX_INTERVAL = SITE["min_interval"], SITE["max_interval"]


def check_spec(spec: SiteSpec) -> SiteSpec:
    """Returns the spec with its URL normalised and its tags trimmed and deduplicated.

    Numbers are in the ranges of `SITE`, min_interval at most max_interval; 64 tags of 64 characters; access as in
    `check_access`. Raises `InvalidValueError`, naming the field.
    """
    _WEIGHT.check(spec.weight)
    _COST.check(spec.cost)
    if spec.min_interval is not None:
        _MIN_INTERVAL.check(spec.min_interval)
    if spec.max_interval is not None:
        _MAX_INTERVAL.check(spec.max_interval)
        if spec.min_interval is not None and spec.min_interval > spec.max_interval:
            raise InvalidValueError(
                "max_interval", f"at least min_interval ({spec.min_interval:g} s)", spec.max_interval
            )
    if spec.min_yield is not None:
        _MIN_YIELD.check(spec.min_yield)
    if spec.half_life is not None:
        _HALF_LIFE.check(spec.half_life)
    tags = _tags(spec.tags) if spec.tags else ()
    access = check_access(spec.access) if spec.access else spec.access
    return replace(spec, url=normalise_url(spec.url), tags=tags, access=access)


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
