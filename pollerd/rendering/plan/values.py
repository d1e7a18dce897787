"""Checks single values of a render plan. Each function raises `InvalidValueError` naming the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pollerd.errors import InvalidValueError
from pollerd.ranges import RENDER_PLAN


def checked_object(field: str, given: object, known: frozenset[str]) -> Mapping[str, Any]:
    """Returns an object that has only known keys."""
    allowed = f"an object with keys of {', '.join(sorted(known))}"
    if not isinstance(given, Mapping):
        raise InvalidValueError(field, allowed, type(given).__name__)
    unknown = [key for key in given if key not in known]
    if unknown:
        raise InvalidValueError(f"{field}.{str(unknown[0])[:40]}", f"absent; {field} is {allowed}", "(not shown)")
    return given


def checked_number(field: str, given: object, name: str, *, whole: bool = False) -> float:
    """Returns a number in the range that is called `name`."""
    allowed = RENDER_PLAN[name]
    kinds = (int,) if whole else (int, float)
    if isinstance(given, bool) or not isinstance(given, kinds) or not allowed.holds(given):
        raise InvalidValueError(field, allowed.allowed, given)
    return given


def checked_flag(field: str, given: object) -> bool:
    """Returns true or false."""
    if not isinstance(given, bool):
        raise InvalidValueError(field, "true or false", given)
    return given


def checked_text(field: str, given: object, most: int, *, secret: bool = False) -> str:
    """Returns a text of 1 to `most` characters; a secret is not shown in the error."""
    if not isinstance(given, str) or not 0 < len(given) <= most or "\0" in given:
        shown = "(not shown)" if secret else given
        raise InvalidValueError(field, f"a text of 1 to {most:,} characters", shown)
    return given
