"""Bodies as they are kept: zstd frames that know their size."""

from __future__ import annotations

from collections.abc import Iterable

import zstandard


def pack(body: bytes, level: int = 3) -> bytes:
    """The body compressed."""
    return zstandard.ZstdCompressor(level=level).compress(body)


def pack_all(bodies: Iterable[tuple[int, bytes]], level: int) -> dict[int, bytes]:
    """Bodies by a key, compressed with one context."""
    compressor = zstandard.ZstdCompressor(level=level)
    return {key: compressor.compress(body) for key, body in bodies}


def unpack(data: bytes) -> bytes:
    """What `pack` was given."""
    return zstandard.ZstdDecompressor().decompress(data)


def unpack_all(bodies: Iterable[tuple[int, bytes]]) -> dict[int, bytes]:
    """Bodies by a key, as `pack_all` was given them; with one context, which costs twice what a page does."""
    decompressor = zstandard.ZstdDecompressor()
    return {key: decompressor.decompress(data) for key, data in bodies}
