"""Reads parts of a settings document that a user wrote, and refuses what cannot be by its field."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pollerd.errors import InvalidValueError
from pollerd.masking import masked
from pollerd.texts import _

_DECIMAL = re.compile(r"[-+]?[0-9]{1,30}(?:\.[0-9]{1,30})?")
_LARGEST = Decimal(10) ** 30
_KINDS: Mapping[type, str] = {dict: "a table", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}


def shown(value: object) -> object:
    """Returns what an error shows of a given value: short values themselves, else their kind."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**40):
        return value
    return _KINDS.get(type(value), _("a number with too many digits") if isinstance(value, int) else _("another kind"))


def table(field: str, value: object, allowed: str) -> Mapping[str, object]:
    """Returns a table with something in it, whose keys are texts."""
    if not isinstance(value, dict):
        raise InvalidValueError(field, allowed, shown(value))
    if not value:
        raise InvalidValueError(field, allowed, _("an empty table"))
    for key in value:
        if not isinstance(key, str):
            raise InvalidValueError(field, _("{allowed}; keys are texts", allowed=allowed), shown(key))
    return value


def known_keys(field: str, fields: Mapping[str, object], known: Collection[str], allowed: str) -> None:
    """Refuses a key that is not known; `allowed` describes the table."""
    for key in fields:
        if key not in known:
            raise InvalidValueError(
                field, _("{allowed} (unknown: {key})", allowed=allowed, key=masked(key[:60])), shown(key[:60])
            )


def list_of(field: str, value: object, most: int, things: str) -> list[object]:
    """Returns a list of 1 to `most` things."""
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        wrong = _("a list of {count}", count=len(value)) if isinstance(value, list) else shown(value)
        raise InvalidValueError(field, _("a list of 1 to {most} {things}", most=most, things=things), wrong)
    return value


def one_of(field: str, value: object, allowed: Collection[str]) -> str:
    """Returns one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidValueError(field, " or ".join(allowed), shown(value))
    return value


def whole_number(field: str, value: object, low: int, high: int) -> int:
    """Returns a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidValueError(field, _("a whole number from {low:,} to {high:,}", low=low, high=high), shown(value))
    return value


def share(field: str, value: object) -> float:
    """Returns a share, 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidValueError(field, _("a number from 0 to 1"), shown(value))
    return float(value)


def exact_number(field: str, value: object) -> Decimal:
    """Returns a number exactly as it is written; a text of digits is one too. At most 30 digits before the point
    and 30 after it.
    """
    number: Decimal | None = None
    if isinstance(value, str):
        number = Decimal(value) if _DECIMAL.fullmatch(value) else None
    elif isinstance(value, float):
        number = Decimal(repr(value)) if math.isfinite(value) else None
    elif isinstance(value, int) and not isinstance(value, bool):
        number = Decimal(value) if abs(value) < _LARGEST else None
    if number is None or number.copy_abs() >= _LARGEST or (number and number.adjusted() < -30):
        raise InvalidValueError(
            field, _("a finite number with at most 30 digits before and after the point"), shown(value)
        )
    return number


def known_table(field: str, value: object, known: Collection[str]) -> Mapping[str, Any]:
    """Returns a table, perhaps empty, that has only known keys; another one is refused by its own field."""
    if not isinstance(value, Mapping):
        raise InvalidValueError(field, _("a table with {known}", known=", ".join(known)), shown(value))
    for key in value:
        if key not in known:
            raise InvalidValueError(f"{field}.{key}", _("among {known}", known=", ".join(known)), shown(key))
    return value


def one_or_more(field: str, value: object, most: int) -> Sequence[Any]:
    """Returns a list of 1 to `most` items; a single table or text is a list of one."""
    return list_of(field, value, most, "items") if isinstance(value, list) else [value]


def text(field: str, value: object, longest: int = 1_000) -> str:
    """Returns a text that is not empty."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise InvalidValueError(field, _("a text of 1 to {longest:,} characters", longest=longest), shown(value))
    return value


def flag(field: str, value: object) -> bool:
    """Returns a truth value."""
    if not isinstance(value, bool):
        raise InvalidValueError(field, _("true or false"), shown(value))
    return value
