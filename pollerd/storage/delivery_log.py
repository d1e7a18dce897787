"""Notices, attempts to send them, and the facts that their messages show."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Connection, Double, Text, and_, bindparam, func, select

from pollerd.errors import NotFoundError
from pollerd.events import EventKind, NoticeState
from pollerd.model import Change, StoredReading
from pollerd.storage.changes import changes_by_id
from pollerd.storage.contents import ContentStore
from pollerd.storage.encoding import Order, PackedRow, Position, unpack_all
from pollerd.storage.engine import Database
from pollerd.storage.notices import IS_DEAD, OutboxStatements, attempt_of, notice_of
from pollerd.storage.notification_values import Attempt, NoticeFacts, NoticeFilter, NoticeSite, StoredNotice
from pollerd.storage.schema import attempt, outbox, reading
from pollerd.storage.statements import Statements, columns_of, run
from pollerd.storage.transactions import Subject, reads
from pollerd.storage.values import ListPage
from pollerd.texts import N_

ALL_NOTICES = NoticeFilter()
_PLAIN = ("channel_id", "change_id", "site_id", "message_id")


# Facts of messages, read for many notices at once.

_SLACK_SECONDS = 1e-3
"""SQLite reads a number from JSON with less than full precision."""


@dataclass(frozen=True, slots=True)
class FactRows:
    """What was read; contents are still packed."""

    sites: dict[int, NoticeSite]
    changes: dict[int, Change]
    contents: list[PackedRow]
    values: dict[int, dict[str, StoredReading]]
    """By change id."""


def facts_of(notices: Iterable[StoredNotice], rows: FactRows) -> list[NoticeFacts]:
    """Returns the facts of each, in their order; unpacks contents."""
    kept = unpack_all(rows.contents)

    def content(content_id: int | None) -> bytes | None:
        return kept[content_id].content if content_id in kept else None

    facts = []
    for notice in notices:
        place = None if notice.site_id is None else rows.sites.get(notice.site_id)
        change = None if notice.change_id is None else rows.changes.get(notice.change_id)
        if change is None:
            facts.append(NoticeFacts(notice, place))
            continue
        before, after = content(change.before_content_id), content(change.after_content_id)
        facts.append(NoticeFacts(notice, place, change, before, after, rows.values.get(change.id or 0, {})))
    return facts


def _values(connection: Connection, sql: Statements, changes: dict[int, Change]) -> dict[int, dict[str, StoredReading]]:
    """Returns the values of each change's selection, as read last at its time, by change id."""
    if not changes:
        return {}
    asked = [
        (key, change.site_id, change.selection, change.detected_at + _SLACK_SECONDS) for key, change in changes.items()
    ]
    readings: dict[int, dict[str, StoredReading]] = defaultdict(dict)
    for key, name, *value in connection.execute(*_last_readings(sql, asked)):
        readings[key][name] = StoredReading(*value)
    return readings


def _last_readings(sql: Statements, asked: list[tuple[int, int, str, float]]) -> tuple[Any, dict[str, Any]]:
    """Returns the statement for the last readings of (key, site, selection) up to a time, and its parameters."""
    if sql.is_sqlite:
        rows: Any = func.json_each(bindparam("asked", type_=Text)).table_valued("value")
        key, site_id, selection, at = (func.json_extract(rows.c.value, f"$[{place}]") for place in range(4))
        parameters: dict[str, Any] = {"asked": json.dumps(asked)}
    else:
        rows = columns_of({"key": BigInteger(), "of_site": BigInteger(), "named": Text(), "until": Double()})
        key, site_id, selection, at = rows.c
        parameters = dict(zip(("key", "of_site", "named", "until"), map(list, zip(*asked, strict=True)), strict=True))
    r = reading.c
    same = and_(r.site_id == site_id, r.selection == selection, r.at <= at)
    last = select(key.label("change"), func.max(r.id).label("last")).select_from(rows).join(reading, same)
    newest = last.group_by(key, r.name).subquery()
    statement = select(newest.c.change, r.name, r.text, r.number, r.moment, r.currency, r.problem)
    return statement.join_from(newest, reading, r.id == newest.c.last), parameters


class DeliveryLog(Subject):
    """What became of notices and attempts, and what messages show of them."""

    def __init__(
        self, *, database: Database, sql: Statements, contents: ContentStore, statements: OutboxStatements
    ) -> None:
        self._database, self._sql, self._contents, self._statements = database, sql, contents, statements

    @reads
    def last_notice(self, connection: Connection, kind: EventKind) -> StoredNotice | None:
        """Returns the last notice of this kind, of any channel; None: there is none, or its time to be kept is over."""
        statement = select(outbox).where(outbox.c.kind == kind.value).order_by(outbox.c.id.desc()).limit(1)
        row = connection.execute(statement).one_or_none()
        return None if row is None else notice_of(row)

    @reads
    def notice(self, connection: Connection, notice_id: int) -> StoredNotice:
        """Returns the notice. Raises `NotFoundError`."""
        row = connection.execute(select(outbox).where(outbox.c.id == notice_id)).one_or_none()
        if row is None:
            raise NotFoundError(N_("notice"), notice_id)
        return notice_of(row)

    @reads
    def notices(
        self,
        connection: Connection,
        notice_filter: NoticeFilter = ALL_NOTICES,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[StoredNotice]:
        """Returns matching notices, newest first unless cursor or `order` say otherwise.

        With a `change_id`: to whom the change was told, and when. Raises `InvalidValueError` for a bad cursor, an order
        that differs from the cursor's, or a bad limit (1 to 1000).
        """
        statement = select(outbox)
        for name in _PLAIN:
            value: Any = getattr(notice_filter, name)
            if value is not None:
                statement = statement.where(outbox.c[name] == value)
        if notice_filter.state is NoticeState.DEAD:
            statement = statement.where(IS_DEAD)
        elif notice_filter.state is not None:
            statement = statement.where(outbox.c.state == notice_filter.state.value)
        if notice_filter.state in (NoticeState.WAITING, NoticeState.SENDING):
            statement = statement.where(outbox.c.ended_at.is_(None))
        position = Position.of("o", cursor, order, unnamed=Order.NEWEST)
        rows = connection.execute(position.select(statement, outbox.c.id, limit))
        return position.page([notice_of(row) for row in rows], limit)

    @reads
    def attempts(
        self,
        connection: Connection,
        channel_id: int | None = None,
        message_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[Attempt]:
        """Returns attempts of a channel, or of a message, or of all; order and errors as in `notices`."""
        statement = select(attempt)
        if channel_id is not None:
            statement = statement.where(attempt.c.channel_id == channel_id)
        if message_id is not None:
            statement = statement.where(attempt.c.message_id == message_id)
        position = Position.of("d", cursor, order, unnamed=Order.NEWEST)
        rows = connection.execute(position.select(statement, attempt.c.id, limit))
        return position.page([attempt_of(row) for row in rows], limit)

    async def facts(self, notices: Sequence[StoredNotice], contents_of: int = 100) -> list[NoticeFacts]:
        """Returns what a message may show of these, in their order, read in one transaction.

        contents_of: of how many, from the first on, the contents before and after the change are read.
        """
        return await unpacked_facts(notices, await self.read_facts(notices, contents_of))

    @reads
    def read_facts(self, connection: Connection, notices: Sequence[StoredNotice], contents_of: int) -> FactRows:
        """Reads what messages show of these; contents of the changes of the first `contents_of` only."""
        sql, sites = (
            self._sql,
            self._sites(connection, {notice.site_id for notice in notices if notice.site_id is not None}),
        )
        ids = dict.fromkeys(notice.change_id for notice in notices if notice.change_id is not None)
        changes = {change.id or 0: change for change in changes_by_id(connection, sql, list(ids))} if ids else {}
        shown = [changes[notice.change_id] for notice in notices[:contents_of] if notice.change_id in changes]
        between = {key for item in shown for key in (item.before_content_id, item.after_content_id) if key is not None}
        contents = self._contents.packed.within(connection, sorted(between)) if between else []
        return FactRows(sites, changes, contents, _values(connection, sql, changes))

    def _sites(self, connection: Connection, ids: set[int]) -> dict[int, NoticeSite]:
        if not ids:
            return {}
        id_list = self._sql.id_list(ids)
        tags: defaultdict[int, list[str]] = defaultdict(list)
        for site_id, name in run(connection, self._statements.tags, id_list):
            tags[site_id].append(name)
        rows = run(connection, self._statements.sites, id_list)
        return {key: NoticeSite(key, url, title or "", tuple(tags[key])) for key, url, title in rows}


async def unpacked_facts(notices: Sequence[StoredNotice], rows: FactRows) -> list[NoticeFacts]:
    """Returns the facts of each notice, in their order."""
    if not rows.contents:
        return facts_of(notices, rows)
    # Decompression releases the GIL: in a thread it does not block the loop.
    return await asyncio.to_thread(facts_of, notices, rows)
