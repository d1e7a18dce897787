"""Recorded polls, values and yields, and the store through which the history is read."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Integer, Select, and_, cast, delete, func, or_, select

from pollerd.model import OutcomeKind, Poll, Redirect, SelectionState, StoredReading
from pollerd.storage.encoding import Order, Position
from pollerd.storage.engine import Database
from pollerd.storage.schema import change, mask, poll, reading, yield_minute
from pollerd.storage.selection_states import load_selection_states
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.storage.values import ListPage, PollColumns, StripColumns

_EVIDENCE = ("site_id", "at", "elapsed", "changed", "age", "count", "at_least", "span")
"""Columns that allocators learn from."""


def _poll(row: dict[str, Any]) -> Poll:
    hops = json.loads(row["redirects"] or "[]")
    row["redirects"] = tuple(Redirect(status, url) for status, url in hops)
    row["outcome"] = OutcomeKind(row["outcome"])
    return Poll(**row)


def recent_polls(per_site: int, after: int, through: int | None) -> Select[Any]:
    """Selects the last `per_site` informative polls of every site, in time order, with ids above `after`, up to
    `through`.

    Leaves out polls from before the site's mask was learned.
    """
    c = poll.c
    informative = [kind.value for kind in OutcomeKind if kind.informative]
    newest_first = func.row_number().over(partition_by=c.site_id, order_by=c.id.desc())
    ranked = (
        select(c.id, *(c[name] for name in _EVIDENCE), newest_first.label("rank"))
        .outerjoin(mask, mask.c.site_id == c.site_id)
        .where(c.outcome.in_(informative), or_(mask.c.since.is_(None), c.at >= mask.c.since))
        .where(c.id > after, *([] if through is None else [c.id <= through]))
        .subquery()
    )
    r = ranked.c
    return select(*(r[name] for name in _EVIDENCE)).where(r.rank <= per_site).order_by(r.at, r.id)


def poll_columns(rows: Sequence[Any]) -> PollColumns:
    """Returns rows of `recent_polls` as columns."""
    site_id, at, elapsed, changed, age, count, at_least, span = zip(*rows, strict=True)
    return PollColumns(
        site_id=np.array(site_id, dtype=np.int64),
        at=np.array(at, dtype=np.float64),
        elapsed=np.array([np.inf if e is None else e for e in elapsed], dtype=np.float64),
        changed=np.array(changed, dtype=np.bool_),
        age=np.array(age, dtype=np.float64),
        count=np.array([-1 if n is None else n for n in count], dtype=np.int64),
        at_least=np.array([-1 if n is None else n for n in at_least], dtype=np.int64),
        span=np.array(span, dtype=np.float64),
    )


# Values that selections of a site had.


@dataclass(frozen=True, slots=True)
class ReadingFilter:
    """A filter on values: all fields that are not None must match."""

    since: float | None = None
    """Read at or after this time, epoch s."""
    selection: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedReading:
    """A value as it was first read at a time, until the next record of it."""

    id: int
    selection: str
    name: str
    at: float
    """Epoch s."""
    value: StoredReading


def _recorded(row: Any) -> RecordedReading:
    value = StoredReading(row["text"], row["number"], row["moment"], row["currency"], row["problem"])
    return RecordedReading(row["id"], row["selection"], row["name"], row["at"], value)


# Polls of a site as columns, for a picture of its history.

MAX_POLLS = 20_000
_FAILED = frozenset(kind.value for kind in OutcomeKind if kind.failed)


# Yields: the changes expected and found in past minutes.

_MINUTE, _HOUR = 60.0, 3_600.0
KEPT_SECONDS = 31 * 86_400.0
"""Minutes are kept for so long."""


@dataclass(frozen=True, slots=True)
class YieldMinute:
    """Changes that were expected to be found in `seconds` of one minute, and what was done in it.

    Expected as scheduled, if polled equally, and by the best split.
    """

    at: float
    """A time in the minute, epoch s."""
    seconds: float
    scheduled: float
    uniform: float
    best: float
    polls: int = 0
    ignored: int = 0
    """Polls that found nothing because all that differed is noise."""
    bytes: int = 0
    cpu: float = 0.0
    """Seconds of a core."""
    site_seconds: float = 0.0
    """Sum over the sites that are polled."""


@dataclass(frozen=True, slots=True)
class WorkSum:
    """What was done in a span, and how soon its changes were found."""

    seconds: float
    """Of the part of the span of which it is known."""
    polls: int
    ignored: int
    bytes: int
    cpu: float
    site_seconds: float
    changes: int
    """Changes of that part that came after an earlier poll; at most the newest `MOST_CHANGES` are looked at."""
    mean_gap: float
    """Mean seconds between their poll and the one before it; 0 without changes."""


MOST_CHANGES = 100_000


@dataclass(frozen=True, slots=True)
class YieldSum:
    """Changes found in a span, and those that were expected in the part of it for which that is known."""

    found: int
    seconds: float
    """Of the part that is known."""
    scheduled: float
    uniform: float
    best: float


class HistoryStore(Subject):
    """Polls and values as written by `Store.commit`, and what was expected of polls."""

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql

    # Polls.

    @reads
    def list_polls(
        self,
        connection: Connection,
        site_id: int,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[Poll]:
        """Returns the site's polls, newest first unless cursor or `order` say otherwise; no cursor after the last.

        Raises `InvalidValueError` for a bad cursor, an order that differs from the cursor's, or a bad limit (1 to
        1000).
        """
        position = Position.of("p", cursor, order, unnamed=Order.NEWEST)
        statement = position.select(select(poll).where(poll.c.site_id == site_id), poll.c.id, limit)
        polls = [_poll(dict(row)) for row in connection.execute(statement).mappings()]
        return position.page(polls, limit)

    @reads
    def last_poll_id(self, connection: Connection) -> int:
        """Returns the id of the last committed poll, 0 before the first."""
        return connection.execute(select(func.max(poll.c.id))).scalar_one() or 0

    @reads
    def last_poll_at(self, connection: Connection) -> float | None:
        """Returns when the last committed poll began (epoch s); None: there is none."""
        newest = connection.execute(select(poll.c.at).order_by(poll.c.id.desc()).limit(1)).scalar()
        return None if newest is None else float(newest)

    @reads
    def strip(self, connection: Connection, site_id: int, since: float) -> StripColumns:
        """Returns the site's polls since a time (epoch s), newest first, the newest 20,000 at most."""
        c = poll.c
        statement = select(c.at, c.outcome, c.changed).where(c.site_id == site_id, c.at >= since).order_by(c.id.desc())
        rows = connection.execute(statement.limit(MAX_POLLS)).all()
        at, outcome, changed = zip(*rows, strict=True) if rows else ((), (), ())
        return StripColumns(
            at=np.array(at, np.float64),
            changed=np.array(changed, np.bool_),
            failed=np.array([kind in _FAILED for kind in outcome], np.bool_),
        )

    async def recent_polls(
        self, per_site: int = 64, piece: int = 2_000, *, after: int = 0, through: int | None = None
    ) -> AsyncIterator[PollColumns]:
        """Yields the last `per_site` informative polls of every site, in time order, `piece` at a time.

        after, through: only polls with ids above the first, and up to the second.
        """
        async for rows in self._database.stream(recent_polls(per_site, after, through), piece):
            yield poll_columns(rows)

    @reads
    def dated_delays(self, connection: Connection, changes: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns how long polls came after the change that they found, where the page named its date.

        Of the newest `changes` recorded changes: site ids int64[k], delays float64[k] s, a row a poll.
        """
        older = select(change.c.id).order_by(change.c.id.desc()).offset(changes).limit(1).scalar_subquery()
        polled_at = func.coalesce(change.c.poll_at, change.c.detected_at)
        of_poll = and_(poll.c.at == polled_at, poll.c.site_id == change.c.site_id)
        statement = (
            select(poll.c.id, poll.c.site_id, poll.c.age)
            .join_from(change, poll, of_poll)
            .where(change.c.id > func.coalesce(older, 0), poll.c.changed, poll.c.age.is_not(None))
            .distinct()
        )
        with connection.execute(statement) as result:
            rows = result.cursor.fetchall()
        _, sites, ages = zip(*rows, strict=True) if rows else ((), (), ())
        return np.array(sites, np.int64), np.array(ages, np.float64)

    # What was expected, and what was found.

    @writes
    def add_yield(self, connection: Connection, minute: YieldMinute) -> None:
        """Adds what is expected of one minute."""
        values = {
            "seconds": minute.seconds,
            "scheduled": minute.scheduled,
            "uniform": minute.uniform,
            "best": minute.best,
            "polls": minute.polls,
            "ignored": minute.ignored,
            "bytes": minute.bytes,
            "cpu": minute.cpu,
            "site_seconds": minute.site_seconds,
        }
        statement = self._sql.insert_for(yield_minute).values(minute=int(minute.at // _MINUTE), **values)
        added = {name: yield_minute.c[name] + statement.excluded[name] for name in values}
        connection.execute(statement.on_conflict_do_update(index_elements=["minute"], set_=added))
        connection.execute(delete(yield_minute).where(yield_minute.c.minute < (minute.at - KEPT_SECONDS) // _MINUTE))

    @reads
    def yield_since(self, connection: Connection, since: float) -> YieldSum:
        """Returns what was found since a time (epoch s), and what was expected."""
        c = yield_minute.c
        sums = [func.coalesce(func.sum(column), 0.0) for column in (c.seconds, c.scheduled, c.uniform, c.best)]
        expected = connection.execute(select(*sums).where(c.minute >= since // _MINUTE)).one()
        count = connection.execute(select(func.count()).select_from(change).where(change.c.detected_at >= since))
        return YieldSum(int(count.scalar_one()), *map(float, expected))

    @reads
    def work_since(self, connection: Connection, since: float) -> WorkSum:
        """Returns what was done since a time (epoch s), as far as it is known."""
        c, d = yield_minute.c, change.c
        known = (c.minute >= since // _MINUTE, c.cpu > 0)  # minutes of earlier versions do not say
        names = (c.seconds, c.polls, c.ignored, c.bytes, c.cpu, c.site_seconds)
        sums = [func.coalesce(func.sum(column), 0) for column in names]
        first, *done = connection.execute(select(func.min(c.minute), *sums).where(*known)).one()
        if first is None:
            return WorkSum(0.0, 0, 0, 0, 0.0, 0.0, 0, 0.0)
        newest = select(d.detected_at, d.previous_poll_at).order_by(d.id.desc()).limit(MOST_CHANGES).subquery()
        n = newest.c
        dated = (n.detected_at >= first * _MINUTE, n.previous_poll_at.is_not(None))
        gaps = select(func.count(), func.avg(n.detected_at - n.previous_poll_at)).where(*dated)
        changes, mean_gap = connection.execute(gaps).one()
        seconds, polls, ignored, received, cpu, site_seconds = done
        return WorkSum(
            seconds=float(seconds),
            polls=int(polls),
            ignored=int(ignored),
            bytes=int(received),
            cpu=float(cpu),
            site_seconds=float(site_seconds),
            changes=int(changes),
            mean_gap=float(mean_gap or 0.0),
        )

    @reads
    def gaps_of_changes(self, connection: Connection, since: float, most: int) -> list[float]:
        """Returns for the newest changes since a time (epoch s) the seconds between their poll and the one before."""
        d = change.c
        dated = (d.detected_at >= since, d.previous_poll_at < d.detected_at)
        gaps = select(d.detected_at - d.previous_poll_at).where(*dated).order_by(d.id.desc()).limit(most)
        return list(connection.execute(gaps).scalars())

    @reads
    def found_by_hour(self, connection: Connection, since: float, until: float) -> list[int]:
        """Returns how many changes were detected in each hour from `since` to `until`, epoch s, oldest first."""
        c = change.c.detected_at
        hours = (c - since) / _HOUR
        # SQLite may have no `floor`; its casts cut, while those of PostgreSQL round.
        hour = cast(hours if self._sql.is_sqlite else func.floor(hours), Integer)
        statement = select(hour, func.count()).where(c >= since, c < until).group_by(hour)
        counts = {int(number): int(count) for number, count in connection.execute(statement)}
        return [counts.get(number, 0) for number in range(math.ceil((until - since) / _HOUR))]

    # Selections.

    @reads
    def list_readings(
        self,
        connection: Connection,
        site_id: int,
        reading_filter: ReadingFilter,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[RecordedReading]:
        """Returns the values of a site's selections each time they were read differently.

        Order, cursor and errors as in `list_changes`.
        """
        c = reading.c
        statement = select(reading).where(c.site_id == site_id)
        if reading_filter.since is not None:
            statement = statement.where(c.at >= reading_filter.since)
        if reading_filter.selection is not None:
            statement = statement.where(c.selection == reading_filter.selection)
        if reading_filter.name is not None:
            statement = statement.where(c.name == reading_filter.name)
        position = Position.of("v", cursor, order, unnamed=Order.NEWEST)
        rows = connection.execute(position.select(statement, c.id, limit)).mappings()
        return position.page([_recorded(row) for row in rows], limit)

    @reads
    def selection_states(self, connection: Connection, site_id: int) -> tuple[SelectionState, ...]:
        """Returns what is known of the site's selections."""
        return self.selection_states_of.within(connection, [site_id]).get(site_id, ())

    @reads
    def selection_states_of(
        self, connection: Connection, site_ids: Sequence[int]
    ) -> Mapping[int, tuple[SelectionState, ...]]:
        """Returns what is known of the selections of these sites, by site id; those without any are missing."""
        return load_selection_states(connection, self._sql, site_ids)
