"""Reads and rewrites the heads of HTTP/1.1 messages that cross the proxy; bodies pass untouched. Lenient, as browsers
are: what is not understood passes as it is.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

_END = re.compile(rb"\r?\n\r?\n")
_REQUEST = re.compile(rb"([A-Z]{1,32}) ([\x21-\x7e]{1,65536}) HTTP/1\.[01]")
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")
_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"upgrade"})
_OF_ANSWERS = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate"})
MAX_HEAD_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request to the proxy."""

    method: bytes
    target: bytes
    """CONNECT: host:port; otherwise an absolute http URL."""
    fields: tuple[tuple[bytes, bytes], ...]
    """(name as sent, value)."""

    def get(self, name: bytes) -> bytes | None:
        """Returns the value of the first field of this name, given in lower case."""
        return next((value for key, value in self.fields if key.lower() == name), None)

    def forwarded(self, target: bytes, authorization: str | None) -> bytes:
        """Returns the head to send on, for a connection that ends with its answer.

        `authorization`: of a further proxy; None: none.
        """
        kept = [(name, value) for name, value in self.fields if name.lower() not in _HOP_BY_HOP]
        if authorization is not None:
            kept.append((b"Proxy-Authorization", authorization.encode("ascii")))
        kept.append((b"Connection", b"close"))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in kept)
        return self.method + b" " + target + b" HTTP/1.1\r\n" + lines + b"\r\n"


async def read_head(reader: asyncio.StreamReader, begun: bytes = b"") -> tuple[bytes, bytes]:
    """Returns a head with its empty line, and what came with it; an empty head where the stream ended first.

    `begun`: what was read of the stream before. Raises `ValueError` for a head of more than 128 KiB.
    """
    data = bytearray(begun)
    while (end := _END.search(data, max(0, len(data) - 65_540))) is None:
        if len(data) > MAX_HEAD_BYTES:
            raise ValueError("head too long")
        chunk = await reader.read(65_536)
        if not chunk:
            return b"", bytes(data)
        data += chunk
    return bytes(data[: end.end()]), bytes(data[end.end() :])


def parse_request(head: bytes) -> RequestHead:
    """Parses the head of a request. Raises `ValueError`."""
    first, *lines = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise ValueError("not a request")
    return RequestHead(request[1], request[2], tuple(_field(line) for line in lines))


def status_of(head: bytes) -> int | None:
    """Returns the status of a response's head; None where it is not one of HTTP/1."""
    status = _STATUS.match(head)
    return None if status is None else int(status[1])


def ending(head: bytes) -> bytes:
    """Returns a response's head that announces the end of its connection."""
    first, *lines = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _OF_ANSWERS]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name != name.strip():
        raise ValueError("not a header field")
    return name, value.strip(b" \t")
