"""The partitions of the table of polls on PostgreSQL, one for each UTC day, made ahead of need and dropped whole.

A partition is made in the same way by every node: another one of the same database may be doing so at this moment.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from sqlalchemy import Connection

from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.engine import Database
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.texts import _

DAY_SECONDS = 86_400.0
DEFAULT_PARTITION = "poll_default"
"""Holds polls of days without a partition: none is lost because a partition is missing."""
LOCK_TIMEOUT_SECONDS = 0.5
"""Longest wait for locks on partitions: whoever asks for `poll` meanwhile waits behind us."""
PIECE = 5_000
"""Rows deleted by one transaction."""

_BOUNDS = re.compile(r"FOR VALUES FROM \((?:MINVALUE|'([^']+)')\) TO \('([^']+)'\)")
_PARTITIONS = """
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), c.reltuples FROM pg_inherits AS i JOIN pg_class AS c
ON c.oid = i.inhrelid WHERE i.inhparent = 'poll'::regclass
"""


@dataclass(frozen=True, slots=True)
class PollPartition:
    """A partition: polls with `start <= at < end` (epoch s; `start` -inf: all earlier ones)."""

    name: str
    start: float
    end: float
    estimate: float
    """Rows by the server's statistics; below 0: it has none yet."""

    @property
    def is_day(self) -> bool:
        """Whether it holds one day: that of the rows from before partitions holds all days up to its end."""
        return self.end - self.start == DAY_SECONDS


def is_covered(partitions: Sequence[PollPartition], day: int) -> bool:
    """Returns whether one of the partitions holds this day."""
    start = day * DAY_SECONDS
    return any(partition.start <= start < partition.end for partition in partitions)


def _make(connection: Connection, day: int) -> None:
    start, end = day * DAY_SECONDS, (day + 1) * DAY_SECONDS
    name = _free_name(connection, day)
    connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE poll INCLUDING DEFAULTS)")
    connection.exec_driver_sql(
        f"WITH moved AS (DELETE FROM {DEFAULT_PARTITION} WHERE at >= {start} AND at < {end} RETURNING *)"
        f" INSERT INTO {name} SELECT * FROM moved"
    )
    # Attached, not made as a partition: that would close `poll` to all who read it.
    connection.exec_driver_sql(f"ALTER TABLE poll ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})")


def _free_name(connection: Connection, day: int) -> str:
    """Returns the partition's name, with a number behind it where an operator detached one of that name."""
    plain = f"poll_{day_name(day)}"
    taken = "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname ~ '^poll_'"
    names = {name for (name,) in connection.exec_driver_sql(taken)}
    number = 1
    name = plain
    while name in names:
        number += 1
        name = f"{plain}_{number}"
    return name


def day_name(day: int) -> str:
    """Returns a day (since the epoch) as 20261125; as its number where the calendar has no such day."""
    try:
        return f"{datetime.fromtimestamp(day * DAY_SECONDS, UTC):%Y%m%d}"
    except (ValueError, OverflowError, OSError):
        return f"{'before' if day < 0 else 'day'}_{abs(day)}"


def _limit_waits(connection: Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(LOCK_TIMEOUT_SECONDS * 1000)}")


# Partitions are made before they are needed, and dropped when all of a day is past its retention.

DAYS_AHEAD = 3
"""Days that have their partition before they begin: for so long nobody has to give way to a new one."""
_TRY_AGAIN_SECONDS = 60.0


class DayPartitions(Subject):
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
        """Makes the partitions that polls begun at these times (epoch s) need. Only on PostgreSQL.

        Where a lock stands in the way, as that of a backup, the polls go to the default partition, and so do those of
        times that are no numbers.
        """
        new = {at // DAY_SECONDS for at in times} - self._known
        if new and time.monotonic() >= self._not_before:
            await self._make({int(day) for day in new if math.isfinite(day)})

    async def prepare(self, now: float) -> None:
        """Makes the partitions of today, of `DAYS_AHEAD` days, and of polls that the default partition holds."""
        if self._database.is_sqlite:
            return
        today = int(now // DAY_SECONDS)
        days = {*range(today, today + DAYS_AHEAD + 1), *await self._days_by_default()}
        self._known.clear()
        await self._make(days)

    async def drop(self, before: float) -> int:
        """Drops partitions of days that ended before that time (epoch s); returns how many polls they held.

        What a lock keeps from being dropped is left for the next time.
        """
        gone = 0
        try:
            while (dropped := await self._drop_oldest(before)) is not None:
                self._known.clear()
                gone += dropped
        except DatabaseUnavailableError as error:
            self._log.warning("poll_partition_kept", reason=str(error), effect="the next maintenance drops it")
        return gone

    async def _make(self, days: Collection[int]) -> None:
        partitions = await self.partitions()
        missing = [day for day in days if not is_covered(partitions, day)]
        if missing:
            partitions = await self._make_missing(missing, partitions)
        self._known |= {float(day) for day in days if is_covered(partitions, day)}

    async def _make_missing(self, missing: list[int], partitions: list[PollPartition]) -> list[PollPartition]:
        try:
            return await self._make_days(missing)
        except DatabaseUnavailableError as error:
            self._not_before = time.monotonic() + _TRY_AGAIN_SECONDS
            effect = _("its polls go to the default partition")
            self._log.warning("poll_partition_not_made", reason=str(error), effect=effect)
            return partitions

    # Each of these is one transaction.

    @reads
    def partitions(self, connection: Connection) -> list[PollPartition]:
        """Returns all partitions but the default one, in order."""
        partitions = []
        for name, bounds, estimate in connection.exec_driver_sql(_PARTITIONS):
            # NULL: another node is dropping it at this moment.
            match = None if bounds is None else _BOUNDS.fullmatch(bounds)
            if match is not None:
                start = float("-inf") if match[1] is None else float(match[1])
                partitions.append(PollPartition(name, start, float(match[2]), estimate))
        return sorted(partitions, key=lambda partition: partition.start)

    @reads
    def _days_by_default(self, connection: Connection) -> list[int]:
        """Returns the days (since the epoch) of polls in the default partition."""
        finite = "at > '-infinity' AND at < 'infinity'"
        days = f"SELECT DISTINCT floor(at / {DAY_SECONDS})::bigint FROM {DEFAULT_PARTITION} WHERE {finite}"
        return [day for (day,) in connection.exec_driver_sql(days)]

    @writes
    def _make_days(self, connection: Connection, days: Collection[int]) -> list[PollPartition]:
        """Makes the partitions of those days (since the epoch) that have none; returns all partitions then.

        Polls that the default partition holds of such a day move to it. Waits for locks no longer than
        `LOCK_TIMEOUT_SECONDS` each.
        """
        _limit_waits(connection)
        # In this order: the first two wait for each other's makers, not for those who read and write polls; only the
        # default partition, empty as a rule, is closed to all.
        connection.exec_driver_sql("LOCK TABLE site IN SHARE ROW EXCLUSIVE MODE")
        connection.exec_driver_sql("LOCK TABLE poll IN SHARE UPDATE EXCLUSIVE MODE")
        partitions = self.partitions.within(connection)
        missing = [day for day in sorted(days) if not is_covered(partitions, day)]
        if not missing:
            return partitions
        connection.exec_driver_sql(f"LOCK TABLE {DEFAULT_PARTITION} IN ACCESS EXCLUSIVE MODE")
        for day in missing:
            _make(connection, day)
        return self.partitions.within(connection)

    @writes
    def _drop_oldest(self, connection: Connection, before: float) -> int | None:
        """Drops the oldest partition if all of it is before that time (epoch s); returns how many polls it held.

        None: there was none to drop. Where the server has statistics of the partition their estimate is returned:
        counting would read all of the day.
        """
        _limit_waits(connection)
        # One at a time: two that had both read the oldest would each keep the other from dropping it.
        connection.exec_driver_sql("LOCK TABLE ONLY poll IN SHARE UPDATE EXCLUSIVE MODE")
        oldest = next(iter(self.partitions.within(connection)), None)
        if oldest is None or oldest.end > before:
            return None
        held = oldest.estimate
        if held < 0:
            held = connection.exec_driver_sql(f"SELECT count(*) FROM {oldest.name}").scalar_one()
        connection.exec_driver_sql(f"DROP TABLE {oldest.name}")
        return int(held)

    @writes
    def prune_mixed(self, connection: Connection, before: float) -> int:
        """Deletes up to `PIECE` polls made before that time from partitions of many days; returns how many."""
        mixed = [
            partition.name
            for partition in self.partitions.within(connection)
            if not partition.is_day and partition.start < before
        ]
        for name in [*mixed, DEFAULT_PARTITION]:
            oldest = f"SELECT ctid FROM {name} WHERE at < {before!r} ORDER BY at LIMIT {PIECE}"
            deleted = connection.exec_driver_sql(f"DELETE FROM {name} WHERE ctid = ANY (ARRAY({oldest}))").rowcount
            if deleted:
                return deleted
        return 0
