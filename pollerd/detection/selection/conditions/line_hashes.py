"""Hashes of a version's lines: what is kept of it to say later whether a line is new.

64 bits a line, without its letter case and the white space around it, so that a line that returns in capitals is the
same line. Blank lines have no hash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import xxhash

from pollerd.detection.selection.conditions.line_changes import lines_of
from pollerd.errors import InvalidValueError

_BYTES = 8


def line_hash(line: str) -> int:
    """Returns the hash of one line, 0 to 2**64 - 1."""
    return xxhash.xxh3_64_intdigest(line.strip().casefold().encode("utf-8", "surrogatepass"))


def line_hashes(content: str) -> frozenset[int]:
    """Returns the hashes of the lines of a content. The set for several versions is the union of theirs."""
    return frozenset(line_hash(line) for line in set(lines_of(content)) if line.strip())


def pack_line_hashes(hashes: Iterable[int]) -> bytes:
    """Returns hashes as bytes, 8 each, little-endian and ascending: equal sets give equal bytes."""
    ordered = sorted(set(hashes))
    return struct.pack(f"<{len(ordered)}Q", *ordered)


def unpack_line_hashes(packed: bytes) -> frozenset[int]:
    """Returns the hashes that `pack_line_hashes` packed. Raises `InvalidValueError` for a length that is none."""
    if len(packed) % _BYTES:
        raise InvalidValueError("line hashes", f"a multiple of {_BYTES} bytes", len(packed))
    return frozenset(struct.unpack(f"<{len(packed) // _BYTES}Q", packed))
