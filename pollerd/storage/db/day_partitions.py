"""Makes the partitions of polls when they are needed, and drops them when all of a day is past its retention."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable

import structlog

from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.db.engine import Database
from pollerd.storage.db.poll_days import (
    DAY_SECONDS,
    PollPartition,
    days_by_default,
    drop_poll_day,
    is_covered,
    make_poll_days,
    poll_partitions,
)

DAYS_AHEAD = 3
"""Days that have their partition before they begin: for so long nobody has to give way to a new one."""
_TRY_AGAIN_SECONDS = 60.0


class DayPartitions:
    """The days that have a partition, as this process knows them. Does nothing on SQLite, which has one table.

    What it knows may be outdated, as another node drops partitions as well: polls of such a day go to the default
    partition, and from there to a new one with the next `prepare`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: set[float] = set()
        """Days, since the epoch."""
        self._not_before = -math.inf
        """When (monotonic s) commits try again to make a partition."""
        self._log = structlog.get_logger("pollerd.storage")

    async def make_for(self, times: Iterable[float]) -> None:
        """Makes the partitions that polls begun at these times (epoch s) need.

        Where a lock stands in the way, as that of a backup, the polls go to the default partition, and so do those of
        times that are no numbers.
        """
        if self._database.is_sqlite:
            return
        new = {at // DAY_SECONDS for at in times} - self._known
        if new and time.monotonic() >= self._not_before:
            await self._make({int(day) for day in new if math.isfinite(day)})

    async def prepare(self, now: float) -> None:
        """Makes the partitions of today, of `DAYS_AHEAD` days, and of polls that the default partition holds."""
        if self._database.is_sqlite:
            return
        today = int(now // DAY_SECONDS)
        days = {*range(today, today + DAYS_AHEAD + 1), *await self._database.read(days_by_default)}
        self._known.clear()
        await self._make(days)

    async def drop(self, before: float) -> int:
        """Drops partitions of days that ended before that time (epoch s); returns how many polls they held.

        What a lock keeps from being dropped is left for the next time.
        """
        gone = 0
        try:
            while (dropped := await self._database.write(lambda c: drop_poll_day(c, before))) is not None:
                self._known.clear()
                gone += dropped
        except DatabaseUnavailableError as error:
            self._log.warning("poll_partition_kept", reason=str(error), instead="it is dropped by the next maintenance")
        return gone

    async def _make(self, days: Collection[int]) -> None:
        partitions = await self._database.read(poll_partitions)
        missing = [day for day in days if not is_covered(partitions, day)]
        if missing:
            partitions = await self._make_missing(missing, partitions)
        self._known |= {float(day) for day in days if is_covered(partitions, day)}

    async def _make_missing(self, missing: list[int], partitions: list[PollPartition]) -> list[PollPartition]:
        try:
            return await self._database.write(lambda c: make_poll_days(c, missing))
        except DatabaseUnavailableError as error:
            self._not_before = time.monotonic() + _TRY_AGAIN_SECONDS
            self._log.warning(
                "poll_partition_not_made", reason=str(error), instead="its polls go to the default partition"
            )
            return partitions
