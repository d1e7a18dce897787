"""What may be said of a site: the ranges of its settings, checked in one place for every way in."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec.structs import replace

from pollerd.api.http.access import check_access
from pollerd.errors import InvalidValueError
from pollerd.model import SiteSpec
from pollerd.urls import normalise_url

MAX_WEIGHT = 1e9
MIN_COST, MAX_COST = 0.01, 10_000.0
MIN_SECONDS, MAX_SECONDS = 0.001, 1e9
"""Of max_interval and half_life; a min_interval may also be 0. 1e9 s are 31 years."""
MAX_TAGS = 64
MAX_TAG_LENGTH = 64


def check_spec(spec: SiteSpec) -> SiteSpec:
    """The spec with its URL normalised and its tags trimmed, none twice.

    weight 0 (never more urgent than any other) to 1e9; cost 0.01 to 10,000; min_interval 0 to 1e9 s; max_interval
    and half_life 0.001 to 1e9 s; min_interval at most max_interval; min_yield 0 to below 1; 64 tags of 64 characters;
    access as `check_access` says.
    Raises `InvalidValueError`, naming the field.
    """
    _within("weight", spec.weight, 0.0, MAX_WEIGHT)
    _within("cost", spec.cost, MIN_COST, MAX_COST)
    if spec.min_interval is not None:
        _within("min_interval", spec.min_interval, 0.0, MAX_SECONDS, " s")
    if spec.max_interval is not None:
        _within("max_interval", spec.max_interval, MIN_SECONDS, MAX_SECONDS, " s")
        if spec.min_interval is not None and spec.min_interval > spec.max_interval:
            raise InvalidValueError(
                "max_interval", f"at least min_interval ({spec.min_interval:g} s)", spec.max_interval
            )
    if spec.min_yield is not None and not 0.0 <= spec.min_yield < 1.0:
        raise InvalidValueError("min_yield", "from 0 to below 1, or below 100%", spec.min_yield)
    if spec.half_life is not None:
        _within("half_life", spec.half_life, MIN_SECONDS, MAX_SECONDS, " s")
    tags = _tags(spec.tags) if spec.tags else ()
    access = check_access(spec.access) if spec.access else spec.access
    return replace(spec, url=normalise_url(spec.url), tags=tags, access=access)


def _within(field: str, value: float, least: float, most: float, unit: str = "") -> None:
    if not (math.isfinite(value) and least <= value <= most):
        raise InvalidValueError(field, f"{least:g} to {most:,.10g}{unit}", value)


def _tags(given: Iterable[str]) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(tag.strip() for tag in given))
    if len(tags) > MAX_TAGS:
        raise InvalidValueError("tags", f"at most {MAX_TAGS}", f"{len(tags)} tags")
    for tag in tags:
        check_tag(tag, "tags")
    return tags


def check_tag(given: str, field: str = "tag") -> str:
    """The tag, trimmed. Raises `InvalidValueError` for one that no site can have."""
    tag = given.strip()
    # A semicolon parts tags in CSV.
    if not (0 < len(tag) <= MAX_TAG_LENGTH and tag.isprintable() and ";" not in tag):
        allowed = f"words of 1 to {MAX_TAG_LENGTH} printable characters without ';'"
        raise InvalidValueError(field, allowed, tag[: MAX_TAG_LENGTH + 1])
    return tag
