"""Response headers that sites often get wrong (dates, Retry-After, validators, content types), and content encodings.

Pure functions; unreadable header values become None, never an error.
"""

from __future__ import annotations

import re
import sys
from calendar import timegm
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache

import brotli
from zlib_ng import zlib_ng

from pollerd.model import Validators
from pollerd.texts import _

MAX_VALIDATOR_LENGTH = 1024
"""Characters; a longer ETag or Last-Modified is treated as absent."""

_NO_VALIDATORS = Validators()
_MAX_CONTENT_TYPE_LENGTH = 256
_MAX_ROBOTS_TAGS, _MAX_ROBOTS_TAG_LENGTH = 16, 512
_MAX_LINKS, _MAX_LINK_LENGTH = 10, 4_096
_MAX_DATE_LENGTH = 64
_MAX_CACHE_CONTROL_LENGTH = 1024
_MAX_DIGITS = 12
_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?([eE]\+?[0-9]+)?")
_IMF_FIXDATE = re.compile(r"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT")
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}


@lru_cache(maxsize=1024)
def http_date(text: str) -> float | None:
    """Returns the UTC epoch seconds of an HTTP date in any of its three forms (RFC 9110, section 5.6.7), or None.

    Cached, because all responses of one second carry the same `Date`.
    """
    if not text.isascii() or len(text) > _MAX_DATE_LENGTH:
        return None
    match = _IMF_FIXDATE.fullmatch(text)
    if match is not None and (month := _MONTHS.get(match[2])) is not None:
        day, year, hour, minute, second = map(int, match.group(1, 3, 4, 5, 6))
        if year > 0 and 1 <= day <= 31 and hour <= 23 and minute <= 59 and second <= 60:
            return float(timegm((year, month, day, hour, minute, second)))
        return None
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def retry_after_seconds(text: str | None, now: float) -> float | None:
    """Returns the seconds that a Retry-After header asks to wait, unclamped; None if absent or unreadable.

    Accepts seconds (also fractions) or an HTTP date, relative to `now` (UTC epoch seconds: the response's own Date if
    it has one); a past date means 0. A number beyond a float becomes the largest float.
    """
    if text is None:
        return None
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), sys.float_info.max)
    moment = http_date(text)
    return None if moment is None else max(0.0, moment - now)


def fresh_seconds(cache_control: str | None, expires: str | None, age: str | None, date: float) -> float | None:
    """Returns the seconds, above 0, for which a response stays fresh (RFC 9111, section 4.2); None if it does not.

    A poller is a private cache: `max-age` counts first; `s-maxage` alone, for shared caches, is also accepted; then
    `Expires`, relative to `date` (UTC epoch s, of the response). `no-store` and `no-cache` mean stale. The time spent
    in caches (`Age`) is subtracted.
    """
    if cache_control is None and expires is None:
        return None
    directives = _directives((cache_control or "")[:_MAX_CACHE_CONTROL_LENGTH])
    if "no-store" in directives or "no-cache" in directives:
        return None
    lifetime = next((directives[name] for name in ("max-age", "s-maxage") if name in directives), None)
    if lifetime is None:
        moment = http_date(expires.strip()) if expires is not None else None
        lifetime = None if moment is None else moment - date
    if lifetime is None:
        return None
    left = lifetime - _whole(age or "")
    return left if left > 0 else None


@lru_cache(maxsize=256)
def _directives(cache_control: str) -> Mapping[str, float]:
    """Returns directive -> whole seconds, 0 if it has none; the first of each name counts.

    Cached, because most sites send the same few values.
    """
    directives: dict[str, float] = {}
    for part in cache_control.split(","):
        name, _equals, value = part.partition("=")
        directives.setdefault(name.strip().lower(), _whole(value.strip().strip('"')))
    return directives


def _whole(text: str) -> float:
    text = text.strip()
    return float(text[:_MAX_DIGITS]) if text.isascii() and text.isdecimal() else 0.0


def validators_of(etag: str | None, last_modified: str | None) -> Validators:
    """Returns the validators as sent, without surrounding whitespace; unusable ones count as absent."""
    if etag is None and last_modified is None:
        return _NO_VALIDATORS
    return Validators(_usable(etag), _usable(last_modified))


def _usable(text: str | None) -> str | None:
    """Returns `text` if it can be sent back and stored: short, without control characters, valid UTF-8."""
    if text is None:
        return None
    text = text.strip(" \t")
    if text.isascii():
        printable = text.isprintable()
    else:
        printable = not any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in text)
    return text if printable and 0 < len(text) <= MAX_VALIDATOR_LENGTH else None


def clean_content_type(text: str | None) -> str | None:
    """Returns a storable Content-Type: at most 256 characters, with bytes that are not UTF-8 replaced."""
    if text is None or (text.isascii() and len(text) <= _MAX_CONTENT_TYPE_LENGTH):
        return text
    return text.encode("utf-8", "replace").decode()[:_MAX_CONTENT_TYPE_LENGTH]


def robots_tags_of(tags: Sequence[str]) -> tuple[str, ...]:
    """Returns the `X-Robots-Tag` headers as sent, at most 16, each cut to 512 characters."""
    return tuple(tag[:_MAX_ROBOTS_TAG_LENGTH] for tag in tags[:_MAX_ROBOTS_TAGS])


def hub_links_of(links: Sequence[str]) -> tuple[str, ...]:
    """Returns the `Link` headers as sent if one of them names a hub, at most 10 of at most 4,096 characters, else none.

    A longer one is left out: its end would be missing.
    """
    if not any("hub" in link.lower() for link in links):
        return ()
    return tuple(link for link in links[:_MAX_LINKS] if len(link) <= _MAX_LINK_LENGTH)


# Content-Encoding, decoded up to a limit.
#
# aiohttp could do it, but it passes truncated gzip or brotli bodies as complete, and bodies with two layers or named
# `x-gzip` undecoded: each would be recorded as a false change.

ACCEPT_ENCODING = "gzip, deflate, br"
"""Encodings that `decode` supports, as the value of Accept-Encoding."""

_MAX_LAYERS = 3
_MAX_MEMBERS = 100
_GZIP_MAGIC = b"\x1f\x8b\x08"
_TEXTUAL = re.compile(r"\s*(?:text/|application/(?:[\w.-]+\+)?(?:xml|json|rss|atom|xhtml))", re.IGNORECASE)
_OF_OTHERS = frozenset(
    {"zstd", "compress", "x-compress", "dcb", "dcz", "bzip2", "x-bzip2", "xz", "x-xz", "lzma", "lz4", "snappy"}
    | {"exi", "pack200-gzip", "aes128gcm", "sdch"}
)
"""Encodings that are some, and that nobody asked for. Any other unknown name stands over plain bytes."""


class DecodingError(Exception):
    """The body does not match its Content-Encoding, or is cut short."""


class CutShortError(DecodingError):
    """The body was sent whole, but its compressed data end too early."""

    def __init__(self, name: str, readable: bytes) -> None:
        super().__init__(_("{name} body is cut short", name=name))
        self.readable = readable
        """What could be decoded."""


class TooLargeError(Exception):
    """The decoded body is larger than allowed."""


def decode(body: bytes, encoding: str, limit: int, *, partial: bool = False) -> bytes:
    """Returns `body` with the layers of `encoding`, a Content-Encoding header, decoded; at most `limit` bytes.

    Memory is bounded by `limit` and the size of `body`, whatever the ratio. With `partial`, returns the first `limit`
    bytes of a longer body, and the readable part of a truncated one. Names can be quoted; those that are no encodings
    are ignored, as by browsers. Raises `TooLargeError`, `CutShortError`, and `DecodingError` for damaged data and for
    an encoding that is not supported.
    """
    names = [part.partition(";")[0].strip(" \t\"'").lower() for part in encoding.split(",")]
    layers = [name for name in names if name in _DECODERS or name in _OF_OTHERS]
    if len(layers) > _MAX_LAYERS:
        raise DecodingError(_("more than {max_layers} layers of content-encoding", max_layers=_MAX_LAYERS))
    for number, name in enumerate(reversed(layers), 1):
        decoder = _DECODERS.get(name)
        if decoder is None:
            raise DecodingError(_("content-encoding that was not asked for: {name}", name=name))
        body, whole = decoder(body, limit + 1) if body else (b"", True)
        if len(body) > limit and not partial:
            raise TooLargeError
        if not whole and not partial:
            raise CutShortError(name, body if number == len(layers) else b"")
    if len(body) > limit and not partial:
        raise TooLargeError
    return body[:limit]


def unsaid_gzip(body: bytes, content_type: str | None) -> bool:
    """Returns whether the body is gzip although it is said to be text, as some servers send feeds and pages."""
    return body.startswith(_GZIP_MAGIC) and _TEXTUAL.match(content_type or "text/") is not None


def _gunzip(body: bytes, room: int) -> tuple[bytes, bool]:
    """Returns up to `room` bytes of all gzip members, and whether the last is complete; ignores trailing garbage."""
    parts: list[bytes] = []
    for _member in range(_MAX_MEMBERS):
        part, inflater = _inflate(body, zlib_ng.MAX_WBITS | 16, room)
        parts.append(part)
        room -= len(part)
        body = inflater.unused_data
        if not (inflater.eof and room > 0 and body.startswith(_GZIP_MAGIC)):
            return b"".join(parts), inflater.eof
    raise DecodingError(_("gzip body of more than {max_members} members", max_members=_MAX_MEMBERS))


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
        raise DecodingError(_("damaged compressed body: {error}", error=error)) from error


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
        raise DecodingError(_("damaged brotli body")) from error
    return b"".join(parts), decompressor.is_finished()


_DECODERS: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
}
