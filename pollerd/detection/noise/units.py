"""A content to units: its lines, parted where cells, sentences, elements or statements end.

So one clock does not make noise of a whole document on one line, nor of an entry of a feed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import xxhash

_UNIT = re.compile(rb"(?<=[\n\t;}])(?!\n)|(?<=[.!?] )|(?=<[A-Za-z])")


def units(content: bytes) -> list[bytes]:
    """The units of `content` in order, line ends included; together they are the content."""
    return [unit for unit in _UNIT.split(content) if unit]


def keys(parts: Sequence[bytes]) -> list[int]:
    """64-bit hash of each unit without its line end, nor the comma that parts it from the next of its kind."""
    digest = xxhash.xxh3_64_intdigest
    return [digest(part.rstrip(b",\n")) for part in parts]
