"""A database server that takes connections and bytes, and answers nothing any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from sqlalchemy.engine import make_url

from tests.app.test_event_streams import port_of
from tests.support.postgres import postgres_database
from tests.support.process import PATIENCE_SECONDS, daemon_process


class Relay:
    """Passes bytes between clients and a server; while it is frozen, none."""

    def __init__(self, host: str, port: int) -> None:
        self._server, self.flowing = (host, port), asyncio.Event()
        self.flowing.set()
        self._tasks = set[asyncio.Task[None]]()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self._server)
        for source, sink in ((reader, there_writer), (there_reader, writer)):
            self._tasks.add(asyncio.create_task(self._pass(source, sink)))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65_536):
                await self.flowing.wait()
                sink.write(data)
                await sink.drain()
        sink.close()

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def relayed(url: str) -> AsyncIterator[tuple[Relay, str]]:
    """A relay to the database, and its URL."""
    known = make_url(url)
    relay = Relay(known.host or "127.0.0.1", known.port or 5432)
    server = await asyncio.start_server(relay.take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield relay, known.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
    finally:
        relay.end()
        server.close()


async def test_readers_are_told_soon_and_served_again_later(tmp_path: Path) -> None:
    with postgres_database() as url:
        async with (
            relayed(url) as (relay, through),
            daemon_process(through, tmp_path / "log", flags=("--no-web",)) as daemon,
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_SECONDS)) as session,
        ):
            sites = f"http://127.0.0.1:{await port_of(daemon)}/api/v1/sites"

            async def asked() -> tuple[int, str | None]:
                async with session.get(sites) as answer:
                    body = await answer.json(content_type=None)
                    return answer.status, body.get("type")

            assert await asked() == (200, None)
            relay.flowing.clear()
            # Statements time out after 120 s, as long as this test waits: so it is not that which answers.
            for _ in range(2):
                assert await asked() == (503, "urn:pollerd:problem:database-unavailable")
            relay.flowing.set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await asked())[0] != 200:
                    await asyncio.sleep(0.1)
