"""Encodes contents: as whole zstd frames with their size, or as a difference against another content of the site.

Of a content with one changed region only that region is stored, with the lengths of the prefix and suffix shared with
the base. The base is stored whole, and is kept as long as a content depends on it.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable
from typing import TypeVar

import zstandard
from msgspec import Struct

from pollerd.detection import common_affix_length

_LEANING_MOST_BYTES = 4096
_LEANING_SHARE = 8
"""Largest difference, as a divisor of the content's size; a whole one is compressed to a third of its text, or less."""
_ENDS = struct.Struct(">II")


Key = TypeVar("Key", bound=Hashable)
PackedRow = tuple[int, bytes, int | None, bytes | None]
"""A stored content: its id and body, and those of its base."""


class Base(Struct, frozen=True, gc=False):
    """A content stored whole, which can be the base of others."""

    id: int
    content: bytes


class Kept(Struct, frozen=True, gc=False):
    """A content as read, and its base (itself if stored whole)."""

    content: bytes
    base: Base


class Packed(Struct, frozen=True, gc=False):
    """A content to be written. `base_id`: its base; None: it is whole."""

    body: bytes
    base_id: int | None = None


def pack(text: bytes, level: int = 1) -> bytes:
    """Returns the compressed text."""
    return zstandard.ZstdCompressor(level=level).compress(text)


def pack_all(contents: Iterable[tuple[Key, bytes, Base | None]], level: int) -> dict[Key, Packed]:
    """Returns contents by key, delta-encoded against the given base if they differ little, else compressed whole."""
    compressor = zstandard.ZstdCompressor(level=level)
    packed = {}
    for key, content, base in contents:
        leaning = None if base is None else _leaning(content, base)
        packed[key] = leaning or Packed(compressor.compress(content))
    return packed


def unpack(body: bytes) -> bytes:
    """Returns the text that `pack` compressed."""
    return zstandard.ZstdDecompressor().decompress(body)


def unpack_all(rows: Iterable[PackedRow]) -> dict[int, Kept]:
    """Returns contents by id; shares one context, whose creation costs twice as much as a page."""
    decompressor = zstandard.ZstdDecompressor()
    kept = {}
    for content_id, body, base_id, base_body in rows:
        if base_id is None:
            content = decompressor.decompress(body)
            kept[content_id] = Kept(content, Base(content_id, content))
        else:
            base = decompressor.decompress(base_body or b"")
            kept[content_id] = Kept(_restored(body, base), Base(base_id, base))
    return kept


def _restored(body: bytes, base: bytes) -> bytes:
    head, tail = _ENDS.unpack_from(body)
    return base[:head] + body[_ENDS.size :] + base[len(base) - tail :]


def _leaning(content: bytes, base: Base) -> Packed | None:
    """Returns the delta-encoded content; None if too much differs."""
    head = common_affix_length(base.content, content, 1)
    room = min(len(base.content), len(content)) - head
    # The suffix must not overlap the prefix.
    tail = min(common_affix_length(base.content, content, -1), room)
    middle = content[head : len(content) - tail]
    if len(middle) > min(_LEANING_MOST_BYTES, len(content) // _LEANING_SHARE):
        return None
    return Packed(_ENDS.pack(head, tail) + middle, base.id)
