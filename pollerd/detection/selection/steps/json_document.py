"""Selects from JSON by JSONPath (RFC 9535)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from pollerd.detection import json
from pollerd.detection.selection.expressions.jsonpath import JsonPath
from pollerd.detection.selection.steps.elements import Keep

_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2


def kept_of_json(text: bytes, keeps: Sequence[Keep]) -> tuple[bytes, str]:
    """Returns what is kept, and the position of a step that matched nothing; empty: all matched.

    One match is written bare, several as a list, each step's matches one after the other. `text` is a JSON document.
    """
    found: list[Any] = [json.parsed(text)]
    missing = ""
    for keep in keeps:
        matches = []
        for value in found:
            for expression in keep.expressions:
                assert isinstance(expression, JsonPath)
                matches += expression.find(value)
        found = keep.cut(matches)
        missing = missing or ("" if found or keep.optional else keep.field)
    return _written(found), missing


def texts_in_json(text: bytes, path: JsonPath) -> list[str]:
    """Returns the matches of a path as texts; what is no text or number as JSON."""
    return [value if isinstance(value, str) else orjson.dumps(value).decode() for value in path.find(json.parsed(text))]


def _written(found: list[Any]) -> bytes:
    if not found:
        return b""
    if len(found) > 1:
        return orjson.dumps(found, option=_CANONICAL)
    one = found[0]
    return one.encode("utf-8", "replace") if isinstance(one, str) else orjson.dumps(one, option=_CANONICAL)
