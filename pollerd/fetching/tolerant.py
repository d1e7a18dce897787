"""A parser of answers that break HTTP's rules where browsers and curl read them all the same.

It takes the place of aiohttp's parser in a connection, so that guard, TLS, deadlines, limits and the flow of a body are
those of all other answers. A connection is used once: what follows an answer is ignored.

| odd | read as |
|---|---|
| empty lines before the status, `HTTP/2 200`, `http/1.1 200`, no reason | a status line |
| a line without a colon, a name that is none | ignored |
| a space before the colon, a continued line, control characters in a value | a header; spaces in their place |
| one header of 200 kB, or thousands | read, up to 256 KiB and 5,000 lines of head, interim answers (1xx) included |
| Content-Length repeated | that length; other numbers than the first are refused |
| Content-Length that is no number | absent: the body ends with the connection |
| Transfer-Encoding: chunked beside Content-Length | chunked |
| chunks with LF alone, spaces around a size, no line break behind the data, no end behind the last | read |
| more bytes than Content-Length says, anything behind the last chunk or a 204 or 304 | ignored |

A body that breaks off is refused, as always: fewer bytes than Content-Length says, or no last chunk.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from aiohttp import ClientPayloadError, StreamReader, hdrs
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpVersion11, RawResponseMessage
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict, CIMultiDictProxy

from pollerd.texts import _

MAX_HEAD_BYTES = 256 * 1024
"""As Chrome; curl takes 300 kB."""
MAX_HEAD_LINES = 5_000
"""As curl."""
_MAX_CHUNK_LINE_BYTES = 16 * 1024
_BUFFERED_BYTES = 64 * 1024
"""Of a body: from twice as many on the connection is not read until they are taken."""
_STATUS = re.compile(rb"[ \t]*HTTP(?:/[0-9.]*)?[ \t]+([1-9][0-9]{2})(?![0-9]).*", re.IGNORECASE | re.DOTALL)
_HEAD_END = re.compile(rb"\n\r?\n")
_NAME = re.compile(r"[0-9A-Za-z!#$%&'*+\-.^_`|~]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]+)[ \t]*(?:;.*)?")
_MAX_SIZE_DIGITS = 15
_REMEMBERED_SECONDS = 86_400.0
_MAX_REMEMBERED = 10_000
_NO_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})

Message = tuple[RawResponseMessage, StreamReader]


class TolerantParser:
    """Parses one answer, fed as it arrives; has the methods that aiohttp's connections call of a parser."""

    def __init__(self, protocol: BaseProtocol) -> None:
        self._protocol = protocol
        self._waiting = bytearray()
        """Bytes of an unfinished head or line."""
        self._searched = 0
        """How many of them cannot be the end of a head."""
        self._head_bytes = self._head_lines = 0
        """Of all heads so far."""
        self._body: _Body | None = None
        """None: the head has not ended."""

    def feed_data(self, data: bytes) -> tuple[list[Message], bool, bytes]:
        """Takes bytes; returns the answer in the call in which its head ends. Raises `BadHttpMessage`."""
        if self._body is not None:
            self._body.feed(data)
            return [], False, b""
        while (message := self._head(data)) is not None:
            if message.code >= HTTPStatus.OK or message.code == HTTPStatus.SWITCHING_PROTOCOLS:
                rest, self._waiting = bytes(self._waiting), bytearray()
                self._body = _body_of(message, self._protocol)
                self._body.feed(rest)
                return [(message, self._body.content)], False, b""
            data = b""
        return [], False, b""

    def feed_eof(self) -> None:
        """Ends the body with the connection. Raises `BadHttpMessage` if something is missing."""
        if self._body is not None:
            self._body.end()

    def pause_reading(self) -> None:
        """Does nothing: what has arrived is parsed, and the connection reads no more."""

    def _head(self, data: bytes) -> RawResponseMessage | None:
        """Returns the next head, once it is whole; what follows it waits."""
        self._waiting += data
        if not self._searched:
            empty = len(self._waiting) - len(self._waiting.lstrip(b"\r\n"))
            self._head_bytes += empty
            del self._waiting[:empty]
        end = _HEAD_END.search(self._waiting, self._searched)
        if self._head_bytes + (len(self._waiting) if end is None else end.end()) > MAX_HEAD_BYTES:
            raise BadHttpMessage(_("a head of more than {max_head_bytes} bytes", max_head_bytes=MAX_HEAD_BYTES))
        if end is None:
            self._searched = max(0, len(self._waiting) - 2)
            return None
        self._searched = 0
        lines = bytes(self._waiting[: end.start()]).split(b"\n")
        self._head_bytes += end.end()
        self._head_lines += len(lines)
        del self._waiting[: end.end()]
        if self._head_lines > MAX_HEAD_LINES:
            raise BadHttpMessage(_("a head of more than {max_head_lines} lines", max_head_lines=MAX_HEAD_LINES))
        return _message(lines)


def _message(lines: list[bytes]) -> RawResponseMessage:
    status = _STATUS.fullmatch(lines[0].rstrip(b"\r"))
    if status is None:
        raise BadHttpMessage(_("no status line: {lines!r}", lines=lines[0][:100]))
    headers = _headers(lines[1:])
    chunked = any("chunked" in coding.lower() for coding in headers.getall(hdrs.TRANSFER_ENCODING, ()))
    length = None if chunked else _length(headers)
    headers.popall(hdrs.CONTENT_LENGTH, None)
    if length is not None:
        headers[hdrs.CONTENT_LENGTH] = str(length)
    proxy = CIMultiDictProxy(headers)
    return RawResponseMessage(HttpVersion11, int(status[1]), "", proxy, (), True, None, False, chunked)


def _headers(lines: list[bytes]) -> CIMultiDict[str]:
    """Returns the headers; what is none is left out."""
    fields: list[tuple[str, list[str]]] = []
    for raw in lines:
        line = raw.decode("utf-8", "surrogateescape").rstrip("\r")
        if line[:1] in (" ", "\t"):
            if fields:
                fields[-1][1].append(line.strip())
            continue
        name, colon, value = line.partition(":")
        usable = colon and _NAME.fullmatch(name.rstrip(" \t"))
        # A line that is left out takes its continuation with it.
        fields.append((name.rstrip(" \t") if usable else "", [value.strip(" \t")]))
    return CIMultiDict((name, _CONTROLS.sub(" ", " ".join(parts)).strip()) for name, parts in fields if name)


def _length(headers: CIMultiDict[str]) -> int | None:
    """Returns the Content-Length; None: there is none that can be used. Raises `BadHttpMessage` for two."""
    stated = {part.strip() for line in headers.getall(hdrs.CONTENT_LENGTH, ()) for part in line.split(",")}
    numbers = {
        int(length) for length in stated if length.isascii() and length.isdecimal() and len(length) <= _MAX_SIZE_DIGITS
    }
    if len(numbers) > 1:
        raise BadHttpMessage(_("two lengths of the body"))
    return numbers.pop() if numbers else None


def _body_of(message: RawResponseMessage, protocol: BaseProtocol) -> _Body:
    if message.code in _NO_BODY:
        return _Body(EMPTY_PAYLOAD)
    content = StreamReader(protocol, _BUFFERED_BYTES)
    if message.chunked:
        return _ChunkedBody(content)
    length = message.headers.get(hdrs.CONTENT_LENGTH)
    return _Body(content) if length is None else _SizedBody(content, int(length))


class _Body:
    """A body that ends with the connection; also one that is empty whatever comes."""

    def __init__(self, content: StreamReader) -> None:
        self.content = content

    def feed(self, data: bytes) -> None:
        """Takes bytes; those behind the body's end are ignored. Raises `BadHttpMessage`."""
        if data and not self.content.is_eof():
            self.content.feed_data(data)

    def end(self) -> None:
        """Takes the connection's end. Raises `BadHttpMessage` if something is missing."""
        if not self.content.is_eof():
            self.content.feed_eof()


class _SizedBody(_Body):
    """A body of so many bytes."""

    def __init__(self, content: StreamReader, length: int) -> None:
        super().__init__(content)
        self._left = length

    def feed(self, data: bytes) -> None:
        part = data[: self._left]
        self._left -= len(part)
        super().feed(part)
        if not self._left and not self.content.is_eof():
            self.content.feed_eof()

    def end(self) -> None:
        if self._left:
            raise BadHttpMessage(_("the body breaks off {left} bytes before its end", left=self._left))


class _ChunkedBody(_Body):
    """A body in chunks. Trailers are ignored, and whether they end."""

    def __init__(self, content: StreamReader) -> None:
        super().__init__(content)
        self._waiting = b""
        """An unfinished line with a size."""
        self._left = 0
        """Bytes of the present chunk that are to come."""

    def feed(self, data: bytes) -> None:
        """Takes bytes. All data of a call are passed on at once: a million chunks of a byte are cheap then, too."""
        if self.content.is_eof():
            return
        data, at, parts = self._waiting + data, 0, list[bytes]()
        self._waiting = b""
        try:
            while at < len(data):
                if self._left:
                    part = data[at : at + self._left]
                    parts.append(part)
                    at, self._left = at + len(part), self._left - len(part)
                    continue
                end = data.find(b"\n", at)
                line = (data[at:] if end < 0 else data[at:end]).strip(b"\r")
                if len(line) > _MAX_CHUNK_LINE_BYTES:
                    raise BadHttpMessage(_("a line between chunks that has no end"))
                if end < 0:
                    self._waiting = data[at:]
                    break
                at = end + 1
                if line:  # the line break behind the data of a chunk is an empty one
                    self._left = _size(line)
                    if not self._left:
                        super().feed(b"".join(parts))
                        self.content.feed_eof()
                        return
        except BadHttpMessage as error:
            self.content.set_exception(ClientPayloadError(error.message))
            raise
        super().feed(b"".join(parts))

    def end(self) -> None:
        """Ends the body if only the line break behind its last size is missing, else raises `BadHttpMessage`."""
        size = _SIZE.fullmatch(self._waiting.strip(b"\r"))
        if not self.content.is_eof():
            if self._left or size is None or int(size[1], 16):
                raise BadHttpMessage(_("the body breaks off before its last chunk"))
            self.content.feed_eof()


def _size(line: bytes) -> int:
    size = _SIZE.fullmatch(line)
    if size is None or len(size[1].lstrip(b"0")) > _MAX_SIZE_DIGITS:
        raise BadHttpMessage(_("no size of a chunk: {line!r}", line=line[:50]))
    return int(size[1], 16)


def parse_tolerantly(protocol: BaseProtocol) -> None:
    """Has the answer that the connection is to receive parsed tolerantly."""
    protocol._parser = cast("None", TolerantParser(protocol))  # noqa: SLF001


class _WatchedParser:
    """The strict parser of a body that did not come with its head: aiohttp never ends one that it refuses later."""

    def __init__(self, strict: Any, content: StreamReader, refused: Callable[[], None]) -> None:
        self._strict, self._content, self._refused = strict, content, refused
        self.feed_eof, self.pause_reading = strict.feed_eof, strict.pause_reading

    def feed_data(self, data: bytes) -> Any:
        try:
            return self._strict.feed_data(data)
        except HttpProcessingError as error:
            self._refused()
            self._content.set_exception(error)
            raise


def watch_parser(protocol: BaseProtocol, content: StreamReader, refused: Callable[[], None]) -> None:
    """Ends the body that is to come with an error if its strict parser refuses it, and calls `refused` then."""
    if protocol._parser is not None:  # noqa: SLF001  (the connection is not lost)
        protocol._parser = cast("None", _WatchedParser(protocol._parser, content, refused))  # noqa: SLF001


class OddHosts(dict[str, float]):
    """Hosts whose answers the strict parser refused, the newest if they are too many; until when, monotonic s."""

    def add(self, host: str, now: float) -> None:
        """Remembers the host for a day from now (monotonic s) on."""
        self.pop(host, None)
        self[host] = now + _REMEMBERED_SECONDS
        if len(self) > _MAX_REMEMBERED:
            del self[next(iter(self))]
