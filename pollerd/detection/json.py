"""Canonical JSON: sorted keys, indent of two spaces, so that formatting is no change and diffs are readable."""

from __future__ import annotations

import json
from typing import Any

import orjson

# orjson reads longer integers and decimals as the nearest double: two different ids would look the same.
_EXACT_DIGITS = 17
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG = b"0" * (_EXACT_DIGITS + 1)
_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2


def canonical(body: bytes) -> bytes | None:
    """Returns the canonical form as UTF-8, or None if the body is not JSON or is nested deeper than about 250 levels.

    `body` is UTF-8 without byte order mark. Arrays keep their order. The last of duplicate keys counts. Numbers of 18
    digits or more and `NaN`, `Infinity` (invalid in JSON, but sent by servers) keep their spelling. Raises nothing.
    """
    try:
        return orjson.dumps(_read(body), option=_CANONICAL)
    except (ValueError, RecursionError, orjson.JSONEncodeError):
        return None


def parsed(body: bytes) -> Any:
    """Returns the value of a JSON body, or None if it cannot be parsed (or is `null`). Raises nothing."""
    try:
        return _read(body)
    except (ValueError, RecursionError):
        return None


def _read(body: bytes) -> Any:
    if _LONG not in body.translate(_ZEROS):
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
    return _read_odd(body)


def _read_odd(body: bytes) -> Any:
    return json.loads(body.decode(), parse_int=_integer, parse_float=_decimal, parse_constant=str)


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _EXACT_DIGITS else digits


def _decimal(digits: str) -> float | str:
    return float(digits) if len(digits) <= _EXACT_DIGITS else digits
