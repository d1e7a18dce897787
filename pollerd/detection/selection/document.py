"""Reads parts of a settings document that a user wrote, and refuses what cannot be by its field."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pollerd.errors import InvalidValueError
from pollerd.masking import masked

_DECIMAL = re.compile(r"[-+]?[0-9]{1,30}(?:\.[0-9]{1,30})?")
_LARGEST = Decimal(10) ** 30
_KINDS: Mapping[type, str] = {dict: "a table", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}


def shown(given: object) -> object:
    """Returns what an error shows of a given value: short values themselves, else their kind."""
    if isinstance(given, str):
        return masked(given)
    if isinstance(given, float) or (isinstance(given, int) and abs(given) < 10**40):
        return given
    return _KINDS.get(type(given), "a number with too many digits" if isinstance(given, int) else "another kind")


def table(field: str, given: object, allowed: str) -> Mapping[str, object]:
    """Returns a table with something in it, whose keys are texts."""
    if not isinstance(given, dict):
        raise InvalidValueError(field, allowed, shown(given))
    if not given:
        raise InvalidValueError(field, allowed, "an empty table")
    for key in given:
        if not isinstance(key, str):
            raise InvalidValueError(field, f"{allowed}; keys are texts", shown(key))
    return given


def known_keys(field: str, given: Mapping[str, object], known: Collection[str], allowed: str) -> None:
    """Refuses a key that is not known; `allowed` describes the table."""
    for key in given:
        if key not in known:
            raise InvalidValueError(field, f"{allowed} (unknown: {masked(key[:60])})", shown(key[:60]))


def list_of(field: str, given: object, most: int, things: str) -> list[object]:
    """Returns a list of 1 to `most` things."""
    if not isinstance(given, list) or not 1 <= len(given) <= most:
        wrong = f"a list of {len(given)}" if isinstance(given, list) else shown(given)
        raise InvalidValueError(field, f"a list of 1 to {most} {things}", wrong)
    return given


def one_of(field: str, given: object, allowed: Collection[str]) -> str:
    """Returns one of the allowed words."""
    if not isinstance(given, str) or given not in allowed:
        raise InvalidValueError(field, " or ".join(allowed), shown(given))
    return given


def whole_number(field: str, given: object, low: int, high: int) -> int:
    """Returns a whole number from `low` to `high`."""
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise InvalidValueError(field, f"a whole number from {low:,} to {high:,}", shown(given))
    return given


def share(field: str, given: object) -> float:
    """Returns a share, 0 to 1."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise InvalidValueError(field, "a number from 0 to 1", shown(given))
    return float(given)


def exact_number(field: str, given: object) -> Decimal:
    """Returns a number exactly as it is written; a text of digits is one too. At most 30 digits before the point
    and 30 after it.
    """
    found: Decimal | None = None
    if isinstance(given, str):
        found = Decimal(given) if _DECIMAL.fullmatch(given) else None
    elif isinstance(given, float):
        found = Decimal(repr(given)) if math.isfinite(given) else None
    elif isinstance(given, int) and not isinstance(given, bool):
        found = Decimal(given) if abs(given) < _LARGEST else None
    if found is None or found.copy_abs() >= _LARGEST or (found and found.adjusted() < -30):
        raise InvalidValueError(
            field, "a finite number with at most 30 digits before and after the point", shown(given)
        )
    return found


def known_table(field: str, given: object, known: Collection[str]) -> Mapping[str, Any]:
    """Returns a table, perhaps empty, that has only known keys; another one is refused by its own field."""
    if not isinstance(given, Mapping):
        raise InvalidValueError(field, f"a table with {', '.join(known)}", shown(given))
    for key in given:
        if key not in known:
            raise InvalidValueError(f"{field}.{key}", f"among {', '.join(known)}", shown(key))
    return given


def one_or_more(field: str, given: object, most: int) -> Sequence[Any]:
    """Returns a list of 1 to `most` items; a single table or text is a list of one."""
    return list_of(field, given, most, "items") if isinstance(given, list) else [given]


def text(field: str, given: object, longest: int = 1_000) -> str:
    """Returns a text that is not empty."""
    if not isinstance(given, str) or not 0 < len(given) <= longest:
        raise InvalidValueError(field, f"a text of 1 to {longest:,} characters", shown(given))
    return given


def flag(field: str, given: object) -> bool:
    """Returns a truth value."""
    if not isinstance(given, bool):
        raise InvalidValueError(field, "true or false", shown(given))
    return given
