"""Wakes readers when new changes are committed, here or by another writer."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.db.engine import Database
from pollerd.storage.db.writer_locks import WriterLocks
from pollerd.storage.polls.changes import last_change_id

LOOK_SECONDS = 5.0
"""A listener looks at the table so often: what became of a message that did not arrive, and is the connection alive?"""
_ANSWER_SECONDS = 10.0
_AGAIN_SECONDS = 1.0


class ChangeNotifier:
    """Notifies readers in this process of new changes, which they read from the database."""

    def __init__(self) -> None:
        self._newest = 0
        self._came = asyncio.Event()

    @property
    def newest(self) -> int:
        """The largest id announced; 0: none was."""
        return self._newest

    def announce(self, change_id: int) -> None:
        """Wakes all waiters: changes up to this id are committed."""
        if change_id > self._newest:
            self._newest = change_id
            self._came.set()
            self._came = asyncio.Event()

    async def after(self, change_id: int) -> None:
        """Returns once a change with an id above `change_id` was announced, possibly before the call."""
        while self._newest <= change_id:
            await self._came.wait()


class ChangeListener:
    """Learns of changes that other writers commit, over a connection of its own."""

    def __init__(self, *, database: Database, locks: WriterLocks, news: ChangeNotifier) -> None:
        self._database, self._channel, self._news = database, locks.channel, news
        self._log = structlog.get_logger("pollerd.storage")

    async def run(self) -> None:
        """Announces until cancelled. Connects again when the connection is lost, and looks at what came meanwhile."""
        listened = True
        while True:
            try:
                await self._listen()
                listened = True
            except DatabaseUnavailableError as error:
                if listened:
                    self._log.warning("listening_failed", reason=str(error), instead="tried again every second")
                listened = False
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _listen(self) -> None:
        """Announces until the connection ends. Raises `DatabaseUnavailableError`."""
        lost = asyncio.Event()
        listening = self._database.listening(self._channel, lambda message: self._news.announce(int(message)), lost.set)
        async with listening as read:
            # The first look comes after LISTEN: what is committed in between is seen by both.
            while not lost.is_set():
                async with asyncio.timeout(_ANSWER_SECONDS):
                    self._news.announce(await read(last_change_id))
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await lost.wait()
