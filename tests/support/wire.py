"""A relay before a PostgreSQL server: it counts what is waited for, and may swallow connections as a network does."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator

from sqlalchemy.engine import make_url

_ASKS = frozenset({b"Q", b"S", b"H"})
"""Query, Sync, Flush: messages after which a client waits for the server."""


class Wire:
    """A relay before the server, that counts how often clients wait for an answer."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.waits = 0
        self._clients: list[asyncio.StreamWriter] = []

    def swallow(self) -> None:
        """Clients see their connections end; the server is told nothing."""
        for client in self._clients:
            client.close()
        self._clients.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self._clients.append(writer)
        there, back = await asyncio.open_connection(self._host, self._port)
        backward = asyncio.create_task(self._copy(there, writer))
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._forward(reader, back)
            await backward  # of a connection that was swallowed the server hears no end: it makes one
        finally:
            backward.cancel()
            for end in (back, writer):
                end.close()
            await asyncio.gather(back.wait_closed(), writer.wait_closed(), return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        start = await reader.readexactly(4)
        back.write(start + await reader.readexactly(struct.unpack(">i", start)[0] - 4))
        while True:
            head = await reader.readexactly(5)
            back.write(head + await reader.readexactly(struct.unpack(">i", head[1:])[0] - 4))
            self.waits += head[:1] in _ASKS
            await back.drain()

    @staticmethod
    async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
        target.close()  # the server hung up


@contextlib.asynccontextmanager
async def relayed(url: str) -> AsyncIterator[tuple[str, Wire]]:
    """The URL with the wire before its server."""
    place = make_url(url)
    wire = Wire(place.host or "", place.port or 5432)
    served = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.create_task(wire.serve(reader, writer)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24)
    port = server.sockets[0].getsockname()[1]
    through = place.set(host="127.0.0.1", port=port, query={"ssl": "disable"})
    try:
        yield through.render_as_string(hide_password=False), wire
    finally:
        server.close()
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)
