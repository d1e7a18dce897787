"""Decodes Content-Encoding up to a limit. Pure.

aiohttp could do it, but it passes truncated gzip or brotli bodies as complete, and bodies with two layers or named
`x-gzip` undecoded: each would be recorded as a false change.
"""

from __future__ import annotations

from collections.abc import Callable

import brotli
from zlib_ng import zlib_ng

ACCEPT_ENCODING = "gzip, deflate, br"
"""Encodings that `decode` supports, as the value of Accept-Encoding."""

_MAX_LAYERS = 3
_MAX_MEMBERS = 100
_GZIP_MAGIC = b"\x1f\x8b"
_PLAIN = frozenset({"", "identity", "none", "binary", "7bit", "8bit", "utf-8", "utf8", "iso-8859-1"})
"""Encodings without effect, and invalid names that occur on plain bodies."""


class DecodingError(Exception):
    """The body does not match its Content-Encoding, or is cut short."""


class TooLargeError(Exception):
    """The decoded body is larger than allowed."""


def decode(body: bytes, encoding: str, limit: int, *, partial: bool = False) -> bytes:
    """Returns `body` with the layers of `encoding`, a Content-Encoding header, decoded; at most `limit` bytes.

    Memory is bounded by `limit` and the size of `body`, whatever the ratio. With `partial`, returns the first `limit`
    bytes of a longer body, and the readable part of a truncated one. Raises `TooLargeError`, and `DecodingError` for an
    unknown encoding, damaged or missing data.
    """
    layers = [name for part in encoding.split(",") if (name := part.strip().lower()) not in _PLAIN]
    if len(layers) > _MAX_LAYERS:
        raise DecodingError(f"more than {_MAX_LAYERS} layers of content-encoding")
    for name in reversed(layers):
        decoder = _DECODERS.get(name)
        if decoder is None:
            raise DecodingError(f"content-encoding that was not asked for: {name}")
        body, whole = decoder(body, limit + 1) if body else (b"", True)
        if not partial:
            _require_whole(body, whole, limit, name)
    if len(body) > limit and not partial:
        raise TooLargeError
    return body[:limit]


def _require_whole(body: bytes, whole: bool, limit: int, name: str) -> None:
    if len(body) > limit:
        raise TooLargeError
    if not whole:
        raise DecodingError(f"{name} body is cut short")


def _gunzip(body: bytes, room: int) -> tuple[bytes, bool]:
    """Returns up to `room` bytes of all gzip members, and whether the last is complete; ignores trailing garbage."""
    parts: list[bytes] = []
    for _ in range(_MAX_MEMBERS):
        part, inflater = _inflate(body, zlib_ng.MAX_WBITS | 16, room)
        parts.append(part)
        room -= len(part)
        body = inflater.unused_data
        if not (inflater.eof and room > 0 and body.startswith(_GZIP_MAGIC)):
            return b"".join(parts), inflater.eof
    raise DecodingError(f"gzip body of more than {_MAX_MEMBERS} members")


def _undeflate(body: bytes, room: int) -> tuple[bytes, bool]:
    """Returns up to `room` bytes of a deflate body; servers send it with and without the zlib wrapper."""
    wrapped = body[0] & 0x0F == zlib_ng.DEFLATED and len(body) > 1 and (body[0] << 8 | body[1]) % 31 == 0
    part, inflater = _inflate(body, zlib_ng.MAX_WBITS if wrapped else -zlib_ng.MAX_WBITS, room)
    return part, inflater.eof


def _inflate(body: bytes, window_bits: int, room: int) -> tuple[bytes, zlib_ng._Decompress]:
    inflater = zlib_ng.decompressobj(window_bits)
    try:
        return inflater.decompress(body, room), inflater
    except zlib_ng.error as error:  # type: ignore[misc]  # its stub takes the class for an instance
        raise DecodingError(f"damaged compressed body: {error}") from error


def _unbrotli(body: bytes, room: int) -> tuple[bytes, bool]:
    """Returns up to about `room` bytes of a brotli body; the library returns them in blocks."""
    decompressor = brotli.Decompressor()
    parts: list[bytes] = []
    try:
        part = decompressor.process(body, output_buffer_limit=room)
        while part or not decompressor.can_accept_more_data():
            parts.append(part)
            room -= len(part)
            if room <= 0:
                break
            part = decompressor.process(b"", output_buffer_limit=room)
    except brotli.error as error:
        raise DecodingError("damaged brotli body") from error
    return b"".join(parts), decompressor.is_finished()


_DECODERS: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
}
