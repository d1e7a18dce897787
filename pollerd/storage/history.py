"""Recorded polls, values and yields, and the store through which the history is read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, and_, delete, func, or_, select

from pollerd.model import Change, OutcomeKind, Poll, Redirect, SelectionState, StoredReading
from pollerd.storage import changes, retention, runs
from pollerd.storage.changes import (
    ALL_CHANGES,
    ChangeFilter,
    ChangesRead,
    Content,
    Range,
    count_unseen,
    current_screenshot,
    get_content,
    get_screenshot,
    packed_contents,
    put_seen,
)
from pollerd.storage.encoding import Base, Order, Position, unpack_all
from pollerd.storage.engine import Database
from pollerd.storage.runs import ChangeNotifier
from pollerd.storage.schema import change, mask, poll, reading, yield_minute
from pollerd.storage.selection_states import load_selection_states
from pollerd.storage.settings import CurrentSettings
from pollerd.storage.statements import Statements
from pollerd.storage.values import ListPage, PollColumns, StripColumns

_EVIDENCE = ("site_id", "at", "elapsed", "changed", "age", "count", "at_least", "span")
"""Columns that allocators learn from."""


def list_polls(
    connection: Connection, site_id: int, limit: int, cursor: str | None, order: Order | None
) -> ListPage[Poll]:
    """Returns the site's polls, in the cursor's order, else in `order`, else newest first."""
    position = Position.of("p", cursor, order, unnamed=Order.NEWEST)
    statement = position.select(select(poll).where(poll.c.site_id == site_id), poll.c.id, limit)
    found = [_poll(dict(row)) for row in connection.execute(statement).mappings()]
    return position.page(found, limit)


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


def dated_delays(connection: Connection, changes: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns how long polls came after the change that they found, where the page named its date.

    Reads the newest `changes` recorded changes: site ids int64[k], delays float64[k] s, a row a poll. Where several
    changes lay between two polls, the date is the last one's.
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


def list_readings(
    connection: Connection, site_id: int, wanted: ReadingFilter, limit: int, cursor: str | None, order: Order | None
) -> ListPage[RecordedReading]:
    """Returns a site's values, in the cursor's order, else in `order`, else newest first."""
    c = reading.c
    statement = select(reading).where(c.site_id == site_id)
    if wanted.since is not None:
        statement = statement.where(c.at >= wanted.since)
    if wanted.selection is not None:
        statement = statement.where(c.selection == wanted.selection)
    if wanted.name is not None:
        statement = statement.where(c.name == wanted.name)
    position = Position.of("v", cursor, order, unnamed=Order.NEWEST)
    rows = connection.execute(position.select(statement, c.id, limit)).mappings()
    return position.page([_recorded(row) for row in rows], limit)


def _recorded(row: Any) -> RecordedReading:
    value = StoredReading(row["text"], row["number"], row["moment"], row["currency"], row["problem"])
    return RecordedReading(row["id"], row["selection"], row["name"], row["at"], value)


# Polls of a site as columns, for a picture of its history.

MAX_POLLS = 20_000
_FAILED = frozenset(kind.value for kind in OutcomeKind if kind.failed)


def strip_columns(connection: Connection, site_id: int, since: float) -> StripColumns:
    """Returns the site's polls since a time (epoch s), newest first, the newest `MAX_POLLS` at most."""
    c = poll.c
    statement = select(c.at, c.outcome, c.changed).where(c.site_id == site_id, c.at >= since).order_by(c.id.desc())
    rows = connection.execute(statement.limit(MAX_POLLS)).all()
    at, outcome, changed = zip(*rows, strict=True) if rows else ((), (), ())
    return StripColumns(
        at=np.array(at, np.float64),
        changed=np.array(changed, np.bool_),
        failed=np.array([one in _FAILED for one in outcome], np.bool_),
    )


# Yields: the changes expected and found in past minutes.

_MINUTE = 60.0
KEPT_SECONDS = 8 * 86_400.0
"""Minutes are kept for so long."""


@dataclass(frozen=True, slots=True)
class YieldMinute:
    """Changes that were expected to be found in `seconds` of one minute: as scheduled, evenly split, best split."""

    at: float
    """A time in the minute, epoch s."""
    seconds: float
    scheduled: float
    uniform: float
    best: float


@dataclass(frozen=True, slots=True)
class YieldSum:
    """Changes found in a span, and those that were expected in the part of it for which that is known."""

    found: int
    seconds: float
    """Of the part that is known."""
    scheduled: float
    uniform: float
    best: float


def add_yield(connection: Connection, sql: Statements, given: YieldMinute) -> None:
    """Adds to what is stored of the minute, and drops minutes that are too old."""
    values = {"seconds": given.seconds, "scheduled": given.scheduled, "uniform": given.uniform, "best": given.best}
    statement = sql.insert_for(yield_minute).values(minute=int(given.at // _MINUTE), **values)
    added = {name: yield_minute.c[name] + statement.excluded[name] for name in values}
    connection.execute(statement.on_conflict_do_update(index_elements=["minute"], set_=added))
    connection.execute(delete(yield_minute).where(yield_minute.c.minute < (given.at - KEPT_SECONDS) // _MINUTE))


def yield_since(connection: Connection, since: float) -> YieldSum:
    """Returns what was found since a time (epoch s), and what was expected."""
    c = yield_minute.c
    sums = [func.coalesce(func.sum(column), 0.0) for column in (c.seconds, c.scheduled, c.uniform, c.best)]
    expected = connection.execute(select(*sums).where(c.minute >= since // _MINUTE)).one()
    found = connection.execute(select(func.count()).select_from(change).where(change.c.detected_at >= since))
    return YieldSum(int(found.scalar_one()), *map(float, expected))


class HistoryStore:
    """Polls, changes and contents as written by `Store.commit`.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(
        self,
        *,
        database: Database,
        sql: Statements,
        settings: CurrentSettings,
        news: ChangeNotifier,
        bases: dict[int, Base],
    ) -> None:
        """bases: receives the bases of contents that are read, by content id, for `Store.commit`."""
        self._database, self._sql, self._settings = database, sql, settings
        self._news, self._bases = news, bases

    # Polls.

    async def list_polls(
        self, site_id: int, limit: int = 100, cursor: str | None = None, order: Order | None = None
    ) -> ListPage[Poll]:
        """Returns the site's polls, newest first unless cursor or `order` say otherwise; no cursor after the last.

        Raises `InvalidValueError` for a bad cursor, an order that differs from the cursor's, or a bad limit (1 to
        1000).
        """
        return await self._database.read(lambda c: list_polls(c, site_id, limit, cursor, order))

    async def last_poll_id(self) -> int:
        """Returns the id of the last committed poll, 0 before the first."""
        return await self._database.read(runs.last_poll_id)

    async def last_poll_at(self) -> float | None:
        """Returns when the last committed poll began (epoch s); None: there is none."""
        return await self._database.read(runs.last_poll_at)

    async def strip(self, site_id: int, since: float) -> StripColumns:
        """Returns the site's polls since a time (epoch s), newest first, the newest 20,000 at most."""
        return await self._database.read(lambda c: strip_columns(c, site_id, since))

    async def recent_polls(
        self, per_site: int = 64, piece: int = 2_000, *, after: int = 0, through: int | None = None
    ) -> AsyncIterator[PollColumns]:
        """Yields the last `per_site` informative polls of every site, in time order, `piece` at a time.

        after, through: only polls with ids above the first, and up to the second.
        """
        async for rows in self._database.stream(recent_polls(per_site, after, through), piece):
            yield poll_columns(rows)

    async def dated_delays(self, changes: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns how long polls came after the change that they found, where the page named its date.

        Of the newest `changes` recorded changes: site ids int64[k], delays float64[k] s, a row a poll.
        """
        return await self._database.read(lambda c: dated_delays(c, changes))

    # Changes.

    async def list_changes(
        self,
        wanted: ChangeFilter = ALL_CHANGES,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[Change]:
        """Returns matching changes, newest first unless cursor or `order` say otherwise.

        No cursor after the last; with oldest first the last cursor may be reused to get newer changes. Raises
        `InvalidValueError` for a bad cursor, an order that differs from the cursor's, or a bad limit (1 to 1000).
        """
        return await self._database.read(lambda c: changes.list_changes(c, wanted, limit, cursor, order))

    async def get_change(self, change_id: int) -> Change:
        """Returns the change. Raises `NotFoundError`."""
        return await self._database.read(lambda c: changes.get_change(c, change_id))

    async def changes_after(self, wanted: ChangeFilter, after: int, limit: int = 100) -> ChangesRead:
        """Returns matching changes with ids above `after`, oldest first, `limit` (1 to 1000) at most.

        To follow the changes without a gap, continue from `reached` each time, and wait with `news` once it is `whole`.
        """
        return await self._database.read(lambda c: changes.changes_after(c, wanted, after, limit))

    async def last_change_id(self) -> int:
        """Returns the largest id of a stored change; 0 before the first."""
        return await self._database.read(changes.last_change_id)

    async def id_before_newest(self, count: int) -> int:
        """Returns the id above which the newest `count` changes lie; 0: all do."""
        return await self._database.read(lambda c: changes.id_before_newest(c, count))

    @property
    def newest_change(self) -> int:
        """The largest id of a change that this store has committed, or heard of from another one; 0: none."""
        return self._news.newest

    async def news(self, after: int) -> None:
        """Returns once this store has committed a change with an id above `after`, or heard of it."""
        await self._news.after(after)

    # What was expected, what was seen.

    async def add_yield(self, minute: YieldMinute) -> None:
        """Adds what is expected of one minute."""
        await self._database.write(lambda c: add_yield(c, self._sql, minute))

    async def yield_since(self, since: float) -> YieldSum:
        """Returns what was found since a time (epoch s), and what was expected."""
        return await self._database.read(lambda c: yield_since(c, since))

    async def put_seen(self, reader: str, ranges: Iterable[Range], *, seen: bool = True) -> None:
        """Notes that a reader has seen the changes with ids in these ranges, both ends included; or has not."""
        given = list(ranges)

        def work(connection: Connection) -> None:
            self._sql.locks.note_seen(connection, reader)
            put_seen(connection, reader, given, seen=seen)

        await self._database.write(work)

    async def count_unseen(self, reader: str, most: int) -> int:
        """Returns how many changes that matter the reader has not seen, counting no further than `most`."""
        return await self._database.read(lambda c: count_unseen(c, reader, most))

    # Selections.

    async def list_readings(
        self,
        site_id: int,
        wanted: ReadingFilter,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[RecordedReading]:
        """Returns the values of a site's selections each time they were read differently.

        Order, cursor and errors as in `list_changes`.
        """
        return await self._database.read(lambda c: list_readings(c, site_id, wanted, limit, cursor, order))

    async def selection_states(self, site_id: int) -> tuple[SelectionState, ...]:
        """Returns what is known of the site's selections."""
        found = await self._database.read(lambda c: load_selection_states(c, self._sql, [site_id]))
        return found.get(site_id, ())

    async def load_versions(self, site_id: int, selection: str, limit: int) -> list[bytes]:
        """Returns the stored contents that changes of a selection led to, newest first."""
        ids = await self._database.read(lambda c: changes.versions(c, site_id, selection, limit))
        contents = await self.load_contents(list(dict.fromkeys(ids))) if ids else {}
        return [contents[one] for one in ids if one in contents]

    # Contents.

    async def get_content(self, content_id: int) -> Content:
        """Returns the content, decompressed. Raises `NotFoundError` if it was pruned."""
        return await self._database.read(lambda c: get_content(c, content_id))

    async def get_screenshot(self, content_id: int) -> bytes:
        """Returns the PNG of the page kept with the content. Raises `NotFoundError` if there is none."""
        return await self._database.read(lambda c: get_screenshot(c, content_id))

    async def current_screenshot(self, site_id: int) -> bytes:
        """Returns the PNG of the page kept with the site's current content. Raises `NotFoundError`."""
        return await self._database.read(lambda c: current_screenshot(c, site_id))

    async def load_contents(self, content_ids: Sequence[int]) -> dict[int, bytes]:
        """Returns contents by id, decompressed; pruned ones are missing."""
        packed = await self._database.read(lambda c: packed_contents(c, self._sql, content_ids))
        # Like compression, decompression releases the GIL.
        kept = await asyncio.to_thread(unpack_all, packed) if packed else {}
        self._bases.update({content_id: one.base for content_id, one in kept.items()})
        return {content_id: one.content for content_id, one in kept.items()}

    async def limit_passed(self, change: Change) -> tuple[str, float]:
        """Returns why a content of this change was dropped: the setting, and its present value (s, bytes, contents)."""
        name = await self._database.read(lambda c: retention.limit_passed(c, change))
        s = self._settings.value
        values = {"content_retention": s.content_retention_seconds, "content_cap_bytes": s.content_cap_bytes}
        return name, values.get(name, s.keep_contents)
