"""Recorded changes, those that a reader has seen, and the news of further ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, Select, and_, delete, exists, func, insert, or_, select

from pollerd.errors import DatabaseUnavailableError, NotFoundError
from pollerd.model import DEFAULT_SELECTION, Change, Media
from pollerd.storage import encoding
from pollerd.storage.encoding import Order, Position
from pollerd.storage.engine import Database
from pollerd.storage.locks import WriterLocks
from pollerd.storage.schema import change, channel, content, outbox, reader_mark, seen_range, site, site_tag, site_text
from pollerd.storage.soft_delete import is_soft_deleted
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.storage.undo import KeptCopy, KeptKind, keep, kept_copies, taken_copy
from pollerd.storage.values import ListPage
from pollerd.texts import N_

# Changes that a reader has seen: ranges of ids, so that a million seen changes cost one row.

MAX_RANGES = 10_000
"""Beyond it the oldest gaps close: what lies in them counts as seen."""
Range = tuple[int, int]


def seen_ranges(connection: Connection, reader: str) -> list[Range]:
    """Returns the ranges of ids, both ends included, ascending."""
    c = seen_range.c
    rows = connection.execute(select(c.first, c.last).where(c.reader == reader).order_by(c.first))
    return [(int(first), int(last)) for first, last in rows]


def merged(ranges: Sequence[Range], more: Iterable[Range]) -> list[Range]:
    """Returns the union, ascending, without ranges that touch."""
    out: list[Range] = []
    for first, last in sorted([*ranges, *more]):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return out


def without(ranges: Sequence[Range], less: Iterable[Range]) -> list[Range]:
    """Returns the ranges without those of `less`."""
    out = list(ranges)
    for first, last in less:
        parts: list[Range] = []
        for start, end in out:
            if end < first or start > last:
                parts.append((start, end))
                continue
            if start < first:
                parts.append((start, first - 1))
            if end > last:
                parts.append((last + 1, end))
        out = parts
    return out


def closed(ranges: Sequence[Range], most: int = MAX_RANGES) -> list[Range]:
    """Returns at most `most` ranges: the oldest become one."""
    if len(ranges) <= most:
        return list(ranges)
    join = len(ranges) - most + 1
    return [(ranges[0][0], ranges[join - 1][1]), *ranges[join:]]


def is_unseen(reader: str) -> ColumnElement[bool]:
    """Returns the condition that the reader has not seen a change.

    What was seen from the first change on is left out at once, so that a reader who has seen a million changes waits
    for none of them. Ranges do not overlap: the last one that begins before a change decides.
    """
    r, c = seen_range.c, change.c.id
    of_reader = select(r.last).where(r.reader == reader)
    from_the_first = of_reader.where(r.first <= 1).scalar_subquery()
    around = of_reader.where(r.first <= c).order_by(r.first.desc()).limit(1).correlate(change).scalar_subquery()
    return and_(c > func.coalesce(from_the_first, 0), func.coalesce(around, 0) < c)


_BEFORE, _AFTER = content.alias("before"), content.alias("after")


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """A filter on changes: all fields that are not None must match."""

    since: float | None = None
    """Detected at or after this time, epoch s."""
    site_id: int | None = None
    tag: str | None = None
    """Of sites that have this tag now."""
    matters: bool | None = None
    """The verdict of the selection's conditions."""
    selection: str | None = None
    """Name of the selection."""
    unseen_by: str | None = None
    """The reader who has not seen it."""
    words: str | None = None
    """In its summary, or its site's URL or title, whatever the case."""
    rule_id: int | None = None
    """The rule that tells of it."""
    after: int | None = None
    """Its id is larger."""


ALL_CHANGES = ChangeFilter()
_MOST_TIMES = 5_000
_VISIT_SECONDS, _LOOK_NOTED_SECONDS = 1_800.0, 60.0


@dataclass(frozen=True, slots=True)
class ChangesRead:
    """Changes read after an id, oldest first."""

    items: list[Change]
    reached: int
    """Id to continue from: all matching changes up to it were read."""
    whole: bool
    """Whether there are no more."""


def _changes(change_filter: ChangeFilter) -> Select[Any]:
    c = change.c
    statement = (
        # Ids from the joined contents: a pruned one is None.
        select(
            c.id,
            c.site_id,
            site.c.url,
            c.detected_at,
            c.previous_poll_at,
            c.kind,
            c.summary,
            _BEFORE.c.id.label("before_id"),
            _AFTER.c.id.label("after_id"),
            c.selection,
            c.matters,
            c.why,
            func.coalesce(site.c.title, site_text.c.page_title, "").label("title"),
        )
        .join_from(change, site)
        .outerjoin(site_text, site_text.c.site_id == c.site_id)
        .outerjoin(_BEFORE, _BEFORE.c.id == c.before_content_id)
        .outerjoin(_AFTER, _AFTER.c.id == c.after_content_id)
        .where(~is_soft_deleted(c.site_id))
    )
    if change_filter.since is not None:
        statement = statement.where(c.detected_at >= change_filter.since)
    if change_filter.site_id is not None:
        statement = statement.where(c.site_id == change_filter.site_id)
    if change_filter.tag is not None:
        statement = statement.where(
            c.site_id.in_(select(site_tag.c.site_id).where(site_tag.c.tag == change_filter.tag))
        )
    if change_filter.matters is not None:
        statement = statement.where(c.matters.is_(change_filter.matters))
    if change_filter.selection is not None:
        statement = statement.where(of_selection(change_filter.selection))
    if change_filter.unseen_by is not None:
        statement = statement.where(is_unseen(change_filter.unseen_by))
    if change_filter.words is not None:
        statement = statement.where(
            or_(
                c.summary.icontains(change_filter.words, autoescape=True),
                site.c.url.icontains(change_filter.words, autoescape=True),
                site.c.title.icontains(change_filter.words, autoescape=True),
                site_text.c.page_title.icontains(change_filter.words, autoescape=True),
            )
        )
    if change_filter.after is not None:
        statement = statement.where(c.id > change_filter.after)
    if change_filter.rule_id is not None:
        statement = statement.where(
            exists().where(outbox.c.change_id == c.id, outbox.c.rule_id == change_filter.rule_id)
        )
    return statement


def of_selection(name: str) -> ColumnElement[bool]:
    """Returns the condition that a change is of the selection of this name."""
    named = change.c.selection == name
    return or_(named, change.c.selection.is_(None)) if name == DEFAULT_SELECTION else named


def changes_by_id(connection: Connection, sql: Statements, change_ids: Sequence[int]) -> list[Change]:
    """Returns the changes with these ids that there are."""
    statement = _changes(ALL_CHANGES).where(sql.in_list(change.c.id, "ids"))
    return [_change(*row) for row in connection.execute(statement, {"ids": sql.id_list(change_ids)})]


def _change(  # noqa: PLR0913 (the columns of a row)
    change_id: int,
    site_id: int,
    url: str,
    detected_at: float,
    previous_poll_at: float | None,
    kind: str,
    summary: str,
    before_content_id: int | None,
    after_content_id: int | None,
    selection: str | None,
    matters: bool,
    why: str,
    title: str,
) -> Change:
    return Change(
        id=change_id,
        site_id=site_id,
        url=url,
        detected_at=detected_at,
        previous_poll_at=previous_poll_at,
        kind=Media(kind),
        summary=summary,
        before_content_id=before_content_id,
        after_content_id=after_content_id,
        selection=selection or DEFAULT_SELECTION,
        matters=bool(matters),
        why=why,
        title=title,
    )


class ChangeStore(Subject):
    """Recorded changes, and which of them each reader has seen."""

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql
        self._newest, self._came = 0, asyncio.Event()

    @reads
    def page(
        self,
        connection: Connection,
        change_filter: ChangeFilter = ALL_CHANGES,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[Change]:
        """Returns matching changes, newest first unless cursor or `order` say otherwise.

        No cursor after the last; with oldest first the last cursor may be reused to get newer changes. Raises
        `InvalidValueError` for a bad cursor, an order that differs from the cursor's, or a bad limit (1 to 1000).
        """
        position = Position.of("c", cursor, order, unnamed=Order.OLDEST)
        statement = position.select(_changes(change_filter), change.c.id, limit)
        changes = [_change(*row) for row in connection.execute(statement)]
        return position.page(changes, limit)

    @reads
    def get(self, connection: Connection, change_id: int) -> Change:
        """Returns the change. Raises `NotFoundError`."""
        row = connection.execute(_changes(ChangeFilter()).where(change.c.id == change_id)).one_or_none()
        if row is None:
            raise NotFoundError(N_("change"), change_id)
        return _change(*row)

    @reads
    def after(self, connection: Connection, change_filter: ChangeFilter, after: int, limit: int = 100) -> ChangesRead:
        """Returns matching changes with ids above `after`, oldest first, `limit` (1 to 1000) at most.

        To follow the changes without a gap, continue from `reached` each time, and wait with `news` once it is `whole`.
        """
        # The limit is read first: a change committed in between belongs to the next reading.
        newest = self.last_id.within(connection)
        statement = _changes(change_filter).where(change.c.id > after, change.c.id <= newest)
        rows = connection.execute(statement.order_by(change.c.id).limit(encoding.check_limit(limit)))
        changes = [_change(*row) for row in rows]
        whole = len(changes) < limit
        return ChangesRead(changes, max(after, newest) if whole else changes[-1].id or 0, whole)

    @reads
    def last_id(self, connection: Connection) -> int:
        """Returns the largest id of a stored change; 0 before the first."""
        return int(connection.execute(select(func.coalesce(func.max(change.c.id), 0))).scalar_one())

    @reads
    def sent_by(self, connection: Connection, change_ids: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
        """Returns the names of channels that have alerts of these changes, with the state of each, by change id."""
        c = outbox.c
        statement = (
            select(c.change_id, channel.c.name, c.state)
            .join(channel, channel.c.id == c.channel_id)
            .where(self._sql.in_list(c.change_id, "ids"), c.change_id.is_not(None))
            .order_by(c.id)
        )
        alerts: dict[int, list[tuple[str, str]]] = {}
        for change_id, name, state in connection.execute(statement, {"ids": self._sql.id_list(change_ids)}):
            alerts.setdefault(change_id, []).append((name, state))
        return alerts

    @reads
    def times(self, connection: Connection, site_ids: Sequence[int], since: float) -> dict[int, list[float]]:
        """Returns when changes of these sites were detected from `since` on (epoch s), newest first, at most 5,000."""
        c = change.c
        statement = select(c.site_id, c.detected_at).where(self._sql.in_list(c.site_id, "ids"), c.detected_at >= since)
        statement = statement.order_by(c.id.desc()).limit(_MOST_TIMES)
        times: dict[int, list[float]] = {}
        for site_id, detected_at in connection.execute(statement, {"ids": self._sql.id_list(site_ids)}):
            times.setdefault(site_id, []).append(detected_at)
        return times

    @reads
    def id_before_newest(self, connection: Connection, count: int) -> int:
        """Returns the id above which the newest `count` changes lie; 0: all do. Numbers have gaps: none is computed."""
        statement = select(change.c.id).order_by(change.c.id.desc()).offset(count).limit(1)
        return int(connection.execute(statement).scalar() or 0)

    # Readers are woken when new changes are committed, here or by another writer.

    @property
    def newest(self) -> int:
        """The largest id of a change that this store has committed, or heard of from another one; 0: none."""
        return self._newest

    def announce(self, change_id: int) -> None:
        """Wakes all who wait for news: changes up to this id are committed."""
        if change_id > self._newest:
            self._newest = change_id
            self._came.set()
            self._came = asyncio.Event()

    async def news(self, after: int) -> None:
        """Returns once this store has committed a change with an id above `after`, or heard of it."""
        while self._newest <= after:
            await self._came.wait()

    # What readers have seen.

    @writes
    def put_seen(
        self,
        connection: Connection,
        reader: str,
        ranges: Iterable[Range],
        *,
        seen: bool = True,
        undoable: int | None = None,
        now: float = 0.0,
    ) -> None:
        """Notes that a reader has seen the changes with ids in these ranges, both ends included; or has not.

        undoable: it can be undone from `now` on, as one of so many changes (0: of all); None: it cannot.
        """
        self._sql.locks.note_seen(connection, reader)
        before = seen_ranges(connection, reader)
        after = merged(before, ranges) if seen else without(before, ranges)
        after = closed(after)
        if after == before:
            return
        kept = set(after)
        gone = [first for first, last in before if (first, last) not in kept]
        known = set(before)
        new = [{"reader": reader, "first": first, "last": last} for first, last in after if (first, last) not in known]
        c = seen_range.c
        for first in gone:
            connection.execute(delete(seen_range).where(c.reader == reader, c.first == first))
        if new:
            connection.execute(insert(seen_range), new)
        if undoable is not None:
            marked = without(after, before) if seen else without(before, after)
            document = {"ranges": marked, "seen": seen, "count": undoable}
            keep(connection, KeptKind.SEEN, "", document, now, reader=reader)

    @reads
    def last_mark(self, connection: Connection, reader: str, now: float) -> KeptCopy | None:
        """Returns the reader's last mark that can be undone."""
        copies = kept_copies(connection, [KeptKind.SEEN], now, reader)
        return copies[0] if copies else None

    @writes
    def undo_mark(self, connection: Connection, reader: str, copy_id: int, now: float) -> None:
        """Takes back a mark; the undoing can be undone, too. Raises `NotFoundError`."""
        copy = taken_copy(connection, copy_id, [KeptKind.SEEN], now, reader)
        ranges = [(int(first), int(last)) for first, last in copy.document["ranges"]]
        seen = not copy.document["seen"]
        self.put_seen.within(connection, reader, ranges, seen=seen, undoable=copy.document["count"], now=now)

    @reads
    def count_unseen(self, connection: Connection, reader: str, most: int) -> int:
        """Returns how many changes that matter the reader has not seen, counting no further than `most`."""
        some = select(change.c.id).where(is_unseen(reader), change.c.matters).order_by(change.c.id.desc()).limit(most)
        return int(connection.execute(select(func.count()).select_from(some.subquery())).scalar_one())

    @reads
    def unseen_among(self, connection: Connection, reader: str, ids: Sequence[int]) -> set[int]:
        """Returns those of the changes with these ids, a page of a list, that the reader has not seen."""
        return set(connection.execute(select(change.c.id).where(change.c.id.in_(ids), is_unseen(reader))).scalars())

    @reads
    def whole_pages_among(self, connection: Connection, ids: Sequence[int]) -> set[int]:
        """Returns those of the changes with these ids, a page of a list, that were found while their site had no
        selections.
        """
        found = select(change.c.id).where(change.c.id.in_(ids), change.c.selection.is_(None))
        return set(connection.execute(found).scalars())

    # When readers looked at what is new, and what they dismissed.

    async def look(self, reader: str, now: float) -> float | None:
        """Notes that a reader looks at what is new; returns when the visit before ended, epoch s; None: there was none.

        Looks with less than half an hour between them are one visit: a reload forgets nothing.
        """
        looked_at, before = await self._looks(reader)
        if looked_at is not None and now - looked_at >= _VISIT_SECONDS:
            before = looked_at
        if looked_at is None or now - looked_at >= _LOOK_NOTED_SECONDS:
            await self._mark_reader(reader, {"looked_at": now, "looked_before": before})
        return before

    @reads
    def _looks(self, connection: Connection, reader: str) -> tuple[float | None, float | None]:
        c = reader_mark.c
        row = connection.execute(select(c.looked_at, c.looked_before).where(c.reader == reader)).one_or_none()
        return (None, None) if row is None else (row.looked_at, row.looked_before)

    @reads
    def has_dismissed_steps(self, connection: Connection, reader: str) -> bool:
        """Returns whether the reader wants no first steps."""
        statement = select(reader_mark.c.steps_dismissed).where(reader_mark.c.reader == reader)
        return bool(connection.execute(statement).scalar())

    async def dismiss_steps(self, reader: str, *, dismissed: bool) -> None:
        """Notes whether the reader wants no first steps."""
        await self._mark_reader(reader, {"steps_dismissed": dismissed})

    @writes
    def _mark_reader(self, connection: Connection, reader: str, marks: Mapping[str, Any]) -> None:
        put = self._sql.insert_for(reader_mark).values(reader=reader, **marks)
        connection.execute(put.on_conflict_do_update(index_elements=["reader"], set_=dict(marks)))

    @reads
    def found_since(self, connection: Connection, since: float, most: int) -> tuple[int, int]:
        """Returns how many changes that matter were detected from `since` on (epoch s), and on how many sites.

        No further than the newest `most` are counted.
        """
        c = change.c
        statement = select(c.site_id).where(c.detected_at >= since, c.matters, ~is_soft_deleted(c.site_id))
        sites = list(connection.execute(statement.order_by(c.detected_at.desc()).limit(most)).scalars())
        return len(sites), len(set(sites))


LOOK_SECONDS = 5.0
"""A listener looks at the table so often: what became of a message that did not arrive, and is the connection alive?"""
_ANSWER_SECONDS = 10.0
_AGAIN_SECONDS = 1.0


class ChangeListener:
    """Learns of changes that other writers commit, over a connection of its own."""

    def __init__(self, *, database: Database, locks: WriterLocks, changes: ChangeStore) -> None:
        self._database, self._channel, self._changes = database, locks.channel, changes
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
                    self._log.warning("listening_failed", reason=str(error), effect="retried every second")
                listened = False
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _listen(self) -> None:
        """Announces until the connection ends. Raises `DatabaseUnavailableError`."""
        lost = asyncio.Event()
        announce = self._changes.announce
        async with self._database.listening(self._channel, lambda message: announce(int(message)), lost.set) as read:
            # The first look comes after LISTEN: what is committed in between is seen by both.
            while not lost.is_set():
                async with asyncio.timeout(_ANSWER_SECONDS):
                    announce(await read(self._changes.last_id.within))
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await lost.wait()
