"""A real forward proxy on loopback: CONNECT tunnels and requests in absolute form."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support.connections import connections_served


@dataclass(frozen=True)
class Asked:
    """One request as the proxy saw it; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]


@dataclass
class Proxy:
    """Where it listens, what it was asked, and whom it answers."""

    port: int = 0
    scheme: str = "http"
    authorization: str | None = None
    asked: list[Asked] = field(default_factory=list)
    names: dict[str, tuple[str, int]] = field(default_factory=dict)
    """"host:port" -> where it really is: names that only the proxy knows."""

    def url(self, userinfo: str = "") -> str:
        return f"{self.scheme}://{userinfo}{'@' if userinfo else ''}127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.asked.append(Asked(method, target, headers))
        if self.authorization is not None and headers.get("proxy-authorization") != self.authorization:
            writer.write(b"HTTP/1.1 407 Who is it\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        elif method == "CONNECT":
            await self._tunnel(target, reader, writer)
        else:
            await self._forward(target, headers, writer)

    async def _tunnel(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await self._dial(target)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))

    async def _forward(self, target: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        url = urlsplit(target)
        reader, there = await self._dial(f"{url.hostname}:{url.port or 80}")
        passed = {n: v for n, v in headers.items() if not n.startswith("proxy-")} | {"connection": "close"}
        lines = [f"GET {url.path or '/'} HTTP/1.1", *(f"{n}: {v}" for n, v in passed.items()), "", ""]
        there.write("\r\n".join(lines).encode("latin-1"))
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        status, _, rest = head.partition(b"\r\n")
        body = await reader.readexactly(int(length[1])) if length else b""
        writer.write(status + b"\r\nConnection: close\r\n" + rest + body)
        await writer.drain()
        there.close()

    async def _dial(self, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = target.rpartition(":")
        return await asyncio.open_connection(*self.names.get(target, (host, int(port))))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def proxied(tls: ssl.SSLContext | None = None, **settings: str) -> AsyncIterator[Proxy]:
    """A proxy that lives as long as the block."""
    proxy = Proxy(scheme="http" if tls is None else "https", **settings)  # type: ignore[arg-type]
    async with connections_served(proxy.serve, tls) as proxy.port:
        yield proxy
