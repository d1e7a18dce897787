"""Runs rounds of pruning, and signals when the next is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from pollerd.storage.db.day_partitions import DayPartitions
from pollerd.storage.db.engine import Database
from pollerd.storage.db.poll_days import prune_mixed_polls
from pollerd.storage.db.statements import Statements
from pollerd.storage.polls import content_retention, content_use, retention
from pollerd.storage.polls.content_retention import Dropped
from pollerd.storage.settings import StorageSettings
from pollerd.storage.values import PruneResult
from pollerd.storage.writers.settled import settled_content_id

T = TypeVar("T")
_SPARE = 64
"""Divisor of the cap: pruning frees this part beyond it, and runs again after this much growth."""
GROWTH_BYTES = 4 * 1024**2
"""Least growth that starts a round."""


class Pruning:
    """Deletes data past its retention, and contents over the cap, in short transactions."""

    def __init__(self, *, database: Database, sql: Statements, days: DayPartitions) -> None:
        self._database, self._sql, self._days = database, sql, days
        self._grown, self._crowded = 0, asyncio.Event()

    def note_growth(self, settings: StorageSettings, size: int) -> None:
        """Counts `size` bytes of committed contents."""
        self._grown += size
        if self._grown > max(settings.content_cap_bytes // _SPARE, GROWTH_BYTES):
            self._crowded.set()

    async def crowded(self) -> None:
        """Returns once enough was committed since the last round to need another."""
        await self._crowded.wait()

    async def prune(self, settings: StorageSettings, now: float) -> PruneResult:
        """Runs one round."""
        self._grown = 0
        self._crowded.clear()
        polls = await self._polls(now - settings.poll_retention_seconds)
        await self._days.prepare(now)
        changes = 0
        if settings.change_retention_seconds is not None:
            changes = await self._rows(retention.prune_changes, now - settings.change_retention_seconds)
        contents, freed = await self._contents(settings, now)
        noticed_before = now - settings.delivery_retention_seconds
        notices = await self._rows(retention.prune_notices, noticed_before)
        notices += await self._rows(retention.prune_attempts, noticed_before)
        return PruneResult(polls, contents, freed, changes, notices)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        """Runs one piece, while nobody else prunes: what two have read, both would subtract."""

        def alone(connection: Connection) -> T:
            self._sql.locks.prune(connection)
            return work(connection)

        return await self._database.write(alone)

    async def _polls(self, before: float) -> int:
        if self._database.is_sqlite:
            return await self._rows(retention.prune_polls, before)
        return await self._days.drop(before) + await self._rows(prune_mixed_polls, before)

    async def _rows(self, prune: Callable[[Connection, float], int], before: float) -> int:
        gone = 0
        while deleted := await self._write(lambda c: prune(c, before)):
            gone += deleted
        return gone

    async def _contents(self, settings: StorageSettings, now: float) -> tuple[int, int]:
        """Prunes contents; returns their number and bytes."""
        sql, keep, before = self._sql, settings.keep_contents, now - settings.content_retention_seconds
        through = await settled_content_id(self._database, sql)
        while await self._write(lambda c: content_use.count_new(c, sql, keep, through)):
            pass
        old, old_bytes = await self._drop(lambda c, _: content_retention.expire(c, sql, before, keep))
        excess = await self._excess_bytes(settings.content_cap_bytes)
        more, more_bytes = await self._drop(lambda c, left: content_retention.give_way(c, sql, left), excess)
        return old + more, old_bytes + more_bytes

    async def _drop(self, work: Callable[[Connection, int], Dropped], most: int | None = None) -> tuple[int, int]:
        """Repeats a piece of work until none is left, or `most` bytes are freed; returns contents and bytes."""
        contents = freed = 0
        while most is None or freed < most:
            left = 0 if most is None else most - freed
            dropped = await self._write(lambda c, left=left: work(c, left))  # type: ignore[misc]
            if not dropped.sites:
                break
            contents, freed = contents + dropped.contents, freed + dropped.bytes
        return contents, freed

    async def _excess_bytes(self, cap: int) -> int:
        """Returns the bytes to free to get under the cap, with a margin so that they are not summed again each time."""
        if await self._database.read(content_use.bytes_at_most) <= cap:
            return 0
        used = await self._write(content_use.sum_up)
        return used - cap + cap // _SPARE if used > cap else 0
