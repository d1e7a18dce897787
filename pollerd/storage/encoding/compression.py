"""Contents as they are kept: whole, as zstd frames that know their size, or leaning on another of their site.

Of a page that changed in one place only what stands between its ends is kept, with how much of the other content comes
before and after it. What is leaned on is whole itself, and is kept as long as anything leans on it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import zstandard
from msgspec import Struct

from pollerd.detection import common_affix_length

_LEANING_MOST_BYTES = 4096
_LEANING_SHARE = 8
"""Up to an eighth of a content may differ from what it leans on; a whole one is a third of its text, or less."""
_ENDS = struct.Struct(">II")


PackedRow = tuple[int, bytes, int | None, bytes | None]
"""A content as it is kept: its id and body, and those of the one that it leans on."""


class Base(Struct, frozen=True, gc=False):
    """A content that is kept whole, which others may lean on."""

    id: int
    content: bytes


class Kept(Struct, frozen=True, gc=False):
    """A content as it was read: what stands in it, and the whole one that it leans on or is."""

    content: bytes
    base: Base


class Packed(Struct, frozen=True, gc=False):
    """A content as it is to be written. `base_id`: the content that it leans on; None: it is whole."""

    body: bytes
    base_id: int | None = None


def pack(text: bytes, level: int = 1) -> bytes:
    """The text, whole."""
    return zstandard.ZstdCompressor(level=level).compress(text)


def pack_all(contents: Iterable[tuple[int, bytes, Base | None]], level: int) -> dict[int, Packed]:
    """Contents by a key, leaning on the base given with them where they differ little; the rest with one context."""
    compressor = zstandard.ZstdCompressor(level=level)
    packed = {}
    for key, content, base in contents:
        leaning = None if base is None else _leaning(content, base)
        packed[key] = leaning or Packed(compressor.compress(content))
    return packed


def unpack(body: bytes) -> bytes:
    """What `pack` was given."""
    return zstandard.ZstdDecompressor().decompress(body)


def unpack_all(rows: Iterable[PackedRow]) -> dict[int, Kept]:
    """Contents by their id; with one context, which costs twice what a page does."""
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
    """None where too much differs."""
    head = common_affix_length(base.content, content, 1)
    room = min(len(base.content), len(content)) - head
    # Bytes are compared from the end as far only as the ends do not overlap.
    tail = min(common_affix_length(base.content, content, -1), room)
    middle = content[head : len(content) - tail]
    if len(middle) > min(_LEANING_MOST_BYTES, len(content) // _LEANING_SHARE):
        return None
    return Packed(_ENDS.pack(head, tail) + middle, base.id)
