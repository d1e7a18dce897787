"""Listens to the news. Who was away has to look at everything again, and is told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog
from sqlalchemy import Connection, text

from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.cluster.news import News, NewsTable
from pollerd.storage.db.engine import Database
from pollerd.storage.sites.poll_request import NEWS_CHANNEL

_RETRY_SECONDS = 1.0
_ALIVE_SECONDS = 30.0


class NewsListener:
    """Listens on a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._log = structlog.get_logger("pollerd.storage")

    async def listen(self) -> AsyncIterator[News | None]:
        """Yields news for ever; None first, and whenever some may have been missed: look at everything then."""
        while True:
            try:
                async for news in self._of_one_connection():
                    yield news
            except DatabaseUnavailableError as error:
                self._log.warning("listening_failed", reason=str(error), instead="tried again every second")
            await asyncio.sleep(_RETRY_SECONDS)

    async def _of_one_connection(self) -> AsyncIterator[News | None]:
        """Yields the news of one connection until it ends. Raises `DatabaseUnavailableError`."""
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        listening = self._database.listening(NEWS_CHANNEL, queue.put_nowait, lambda: queue.put_nowait(None))
        async with listening as read:
            schema = await read(_schema)
            yield None
            while True:
                try:
                    payload = await asyncio.wait_for(queue.get(), _ALIVE_SECONDS)
                except TimeoutError:
                    await read(_schema)  # notices a connection that the network lost
                    continue
                if payload is None:
                    return
                where, table, key = payload.split(" ", 2)
                if where == schema:
                    yield News(NewsTable(table), key)


def _schema(connection: Connection) -> str:
    return str(connection.execute(text("SELECT current_schema()")).scalar_one())
