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
