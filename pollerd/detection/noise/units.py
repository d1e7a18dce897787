"""Splits a content into units: lines, further split where cells, sentences, elements or statements end.

Thus one clock does not make a whole one-line document noise, nor an entry of a feed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import xxhash

_UNIT = re.compile(rb"(?<=[\n\t;}])(?!\n)|(?<=[.!?] )|(?=<[A-Za-z])")


def units(content: bytes) -> list[bytes]:
    """Returns the units of `content` in order, line ends included; concatenated they are the content."""
    return [unit for unit in _UNIT.split(content) if unit]


def keys(parts: Sequence[bytes]) -> list[int]:
    """Returns the 64-bit hash of each unit without its line end and trailing comma."""
    digest = xxhash.xxh3_64_intdigest
    return [digest(part.rstrip(b",\n")) for part in parts]
