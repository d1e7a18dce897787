"""Checks a site's settings."""

from __future__ import annotations

import math

from pollerd.errors import InvalidValueError
from pollerd.model import SiteSpec
from pollerd.storage.encoding.text_encoding import storable

_USUAL = (None,) * 7


def check_spec(spec: SiteSpec) -> None:
    """Raises `InvalidValueError`, naming the field, if a spec cannot be stored."""
    numbers = (
        spec.weight,
        spec.cost,
        spec.min_interval,
        spec.max_interval,
        spec.min_yield,
        spec.half_life,
        spec.deadline,
    )
    if numbers != _USUAL:  # most sites of a list have only a URL
        _check_numbers(spec)
    if not spec.url or storable(spec.url) != spec.url:
        raise InvalidValueError("url", "a URL without NUL or lone surrogates", spec.url)
    for field in ("selections", "render", "title"):
        given: str = getattr(spec, field)
        if storable(given) != given:
            raise InvalidValueError(field, "without NUL or lone surrogates", "others")
    for tag in spec.tags:
        if not tag or storable(tag) != tag:
            raise InvalidValueError("tags", "words without NUL or lone surrogates", tag)


def _check_numbers(spec: SiteSpec) -> None:
    for field, least in (("weight", spec.weight), ("min_interval", spec.min_interval)):
        if least is not None and not (math.isfinite(least) and least >= 0):
            raise InvalidValueError(field, "a number, 0 or more", least)
    for field, interval in (
        ("cost", spec.cost),
        ("max_interval", spec.max_interval),
        ("half_life", spec.half_life),
        ("deadline", spec.deadline),
    ):
        if interval is not None:
            _check_positive(field, interval)
    if spec.min_yield is not None and not 0 <= spec.min_yield < 1:
        raise InvalidValueError("min_yield", "a chance from 0 to below 1", spec.min_yield)
    if None not in (spec.min_interval, spec.max_interval) and spec.min_interval > spec.max_interval:  # type: ignore[operator]
        raise InvalidValueError("max_interval", f"at least min_interval ({spec.min_interval})", spec.max_interval)


def _check_positive(field: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidValueError(field, "a number above 0", value)
