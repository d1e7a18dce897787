"""A site made of a raw asyncio server: it says any bytes at any moment, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.connections import connections_served


@dataclass(frozen=True)
class Seen:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    method: str = "GET"
    body: bytes = b""


Handler = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """Where a site listens, and what happened to it."""

    port: int = 0
    scheme: str = "http"
    host: str = "127.0.0.1"
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0

    def url(self, path: str = "/") -> str:
        return f"{self.scheme}://{self.host}:{self.port}{path}"


def message(status: str, *headers: str, body: bytes = b"", length: bool = True) -> bytes:
    """A response as bytes; `Content-Length` is added unless `length` is off."""
    lines = [f"HTTP/1.1 {status}", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def says(*parts: bytes) -> Handler:
    """A handler that answers every request with the same bytes."""

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
        await writer.drain()

    return handler


def says_and_closes(*parts: bytes) -> Handler:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await says(*parts)(seen, writer)
        writer.close()

    return handler


def by_path(answers: dict[str, bytes]) -> Handler:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.get(seen.path, message("404 Not Found")))
        await writer.drain()

    return handler


async def _read_request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        return None
    first, *lines = head.decode("utf-8", "surrogateescape").split("\r\n")[:-2]
    pairs = (line.partition(":")[::2] for line in lines)
    headers = {name.lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split(" ")
    return Seen(path, headers, method, body)


@asynccontextmanager
async def served(handler: Handler, tls: ssl.SSLContext | None) -> AsyncIterator[Site]:
    site = Site(scheme="http" if tls is None else "https")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        site.connections += 1
        site.open_connections += 1
        try:
            while not writer.is_closing() and (seen := await _read_request(reader)) is not None:
                site.seen.append(seen)
                await handler(seen, writer)
        finally:
            site.open_connections -= 1

    async with connections_served(serve, tls) as site.port:
        yield site
