"""Checks a site's settings."""

from __future__ import annotations

from operator import attrgetter

from pollerd.errors import InvalidValueError
from pollerd.site_settings import USABLE, SiteSpec
from pollerd.storage.encoding.text_encoding import storable

_numbers = attrgetter(*USABLE)
_UNSET = (None,) * len(USABLE)


def check_spec(spec: SiteSpec) -> None:
    """Raises `InvalidValueError`, naming the field, if a spec cannot be stored."""
    numbers = _numbers(spec)
    if numbers != _UNSET:  # most sites of a list have only a URL
        for usable, value in zip(USABLE.values(), numbers, strict=True):
            if value is not None:
                usable.check(value)
        if None not in (spec.min_interval, spec.max_interval) and spec.min_interval > spec.max_interval:  # type: ignore[operator]
            raise InvalidValueError("max_interval", f"at least min_interval ({spec.min_interval})", spec.max_interval)
    if not spec.url or storable(spec.url) != spec.url:
        raise InvalidValueError("url", "a URL without NUL or lone surrogates", spec.url)
    for field in ("selections", "render", "title"):
        given: str = getattr(spec, field)
        if storable(given) != given:
            raise InvalidValueError(field, "without NUL or lone surrogates", "others")
    for tag in spec.tags:
        if not tag or storable(tag) != tag:
            raise InvalidValueError("tags", "words without NUL or lone surrogates", tag)
