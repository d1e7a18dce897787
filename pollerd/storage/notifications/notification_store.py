"""Channels, rules, the outbox and its attempts: each method is one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy import Connection, select

from pollerd.events import Incident, Notice
from pollerd.storage.db.engine import Database
from pollerd.storage.db.notification_schema import attempt, outbox
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding.compression import unpack_all
from pollerd.storage.encoding.cursors import Order, Position
from pollerd.storage.encoding.encryption import Encryption
from pollerd.storage.notifications import channels_and_rules as rows
from pollerd.storage.notifications import outbox as box
from pollerd.storage.notifications.contexts import read_contexts
from pollerd.storage.notifications.notification_values import (
    Attempt,
    ChannelRow,
    ClaimedMessage,
    DeliveryEnd,
    NoticeContext,
    NoticeFilter,
    OutboxCounts,
    RuleRow,
    StoredNotice,
)
from pollerd.storage.polls.notices import write_notices
from pollerd.storage.values import ListPage

WAIT_SECONDS = 4 * 86_400.0
"""How long a notice may wait: longer than the three days of its attempts."""
_TOO_LATE = "not delivered within four days"
_PIECE = 1_000


class NotificationStore:
    """What is told to whom: settings, what waits, and what was tried.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(self, *, database: Database, sql: Statements, encryption: Encryption) -> None:
        self._database, self._sql, self._encryption = database, sql, encryption

    # Channels and rules.

    async def channels(self) -> list[ChannelRow]:
        """Returns all channels, by id."""
        return await self._database.read(lambda c: rows.all_channels(c, self._encryption))

    async def channel(self, channel_id: int) -> ChannelRow:
        """Returns a channel. Raises `NotFoundError`."""
        return await self._database.read(lambda c: rows.get_channel(c, self._encryption, channel_id))

    async def put_channel(self, row: ChannelRow, now: float) -> ChannelRow:
        """Adds a channel (id 0) or sets the settings of one, and ends its pause.

        Raises `DuplicateError`, `NotFoundError`, and `InvalidValueError` where its secrets cannot be kept.
        """

        def work(connection: Connection) -> ChannelRow:
            channel_id = rows.put_channel(connection, self._encryption, row, now)
            return rows.get_channel(connection, self._encryption, channel_id)

        return await self._database.write(work)

    async def delete_channel(self, channel_id: int) -> None:
        """Deletes a channel, with what waits for it.

        Raises `NotFoundError`, and `InvalidValueError` while rules name it.
        """
        await self._database.write(lambda c: rows.delete_channel(c, channel_id))

    async def pause_channel(self, channel_id: int, now: float, reason: str, *, probe_at: float) -> ChannelRow:
        """Pauses a channel whose receiver refuses us. Raises `NotFoundError`."""

        def work(connection: Connection) -> ChannelRow:
            rows.set_pause(connection, channel_id, now, reason, probe_at)
            return rows.get_channel(connection, self._encryption, channel_id)

        return await self._database.write(work)

    async def resume_channel(self, channel_id: int) -> ChannelRow:
        """Ends the pause of a channel. Raises `NotFoundError`."""

        def work(connection: Connection) -> ChannelRow:
            rows.set_pause(connection, channel_id, None)
            return rows.get_channel(connection, self._encryption, channel_id)

        return await self._database.write(work)

    async def rules(self) -> list[RuleRow]:
        """Returns all rules, by id."""
        return await self._database.read(rows.all_rules)

    async def rule(self, rule_id: int) -> RuleRow:
        """Returns a rule. Raises `NotFoundError`."""
        return await self._database.read(lambda c: rows.get_rule(c, rule_id))

    async def put_rule(self, row: RuleRow, channels: Sequence[str], now: float) -> RuleRow:
        """Adds a rule (id 0) or sets the settings of one. channels: the names of those that it tells.

        Raises `DuplicateError`, `NotFoundError`, and `InvalidValueError` for a channel that is not there.
        """

        def work(connection: Connection) -> RuleRow:
            return rows.get_rule(connection, rows.put_rule(connection, row, channels, now))

        return await self._database.write(work)

    async def delete_rule(self, rule_id: int) -> None:
        """Deletes a rule; what it has put into the outbox is still told. Raises `NotFoundError`."""
        await self._database.write(lambda c: rows.delete_rule(c, rule_id))

    async def incidents(self) -> list[Incident]:
        """Returns all open incidents."""
        return await self._database.read(rows.incidents)

    # The outbox.

    async def put(self, notices: Sequence[Notice]) -> None:
        """Puts notices of events that no poll found into the outbox; one that is there stays as it is."""
        await self._database.write(lambda c: write_notices(c, self._sql, notices, lambda _: None))

    async def claim(self, channel_id: int, now: float, *, limit: int, group_from: int) -> ClaimedMessage | None:
        """Takes what is to be sent now as one message; None: nothing is due. See `outbox.claim`."""
        return await self._database.write(lambda c: box.claim(c, channel_id, now, limit, group_from))

    async def ended(self, end: DeliveryEnd) -> None:
        """Notes the end of an attempt: in one transaction what becomes of the message, and the attempt."""
        await self._database.write(lambda c: box.end(c, end))

    async def release(self) -> int:
        """Makes what was being sent when its process ended wait again; returns how many notices."""
        return await self._database.write(box.release)

    async def next_due(self) -> dict[int, float]:
        """Returns when something is due next on each channel, by its id."""
        return await self._database.read(box.next_due)

    async def resend(self, now: float, *, ids: Sequence[int] = (), channel_id: int | None = None) -> int:
        """Makes dead notices wait anew: those of these ids, or all of a channel. Returns how many."""
        return await self._database.write(lambda c: box.resend(c, now, ids=ids, channel_id=channel_id))

    async def tidy(self, now: float, retention: float) -> tuple[int, int]:
        """Gives up what waits for too long, and deletes what ended, and was tried, more than `retention` seconds ago.

        Returns how many notices were given up, and how many rows deleted.
        """
        late = await self._database.write(lambda c: box.expire(c, now - WAIT_SECONDS, now, _TOO_LATE))
        gone = 0
        while deleted := await self._database.write(lambda c: box.prune(c, now - retention, _PIECE)):
            gone += deleted
        return late, gone

    async def counts(self) -> OutboxCounts:
        """Counts what is open, what is dead, and the channels that are paused."""
        return await self._database.read(box.counts)

    async def contexts(self, notices: Sequence[StoredNotice], *, with_contents: bool) -> list[NoticeContext]:
        """Returns what a message needs to know of each notice besides; with_contents: also contents and values."""
        found = await self._database.read(lambda c: read_contexts(c, self._sql, notices, with_contents=with_contents))
        bodies = await asyncio.to_thread(unpack_all, found.packed) if found.packed else {}
        out = []
        for one in notices:
            change = found.changes.get(one.change_id or 0)
            before = bodies.get(change.before_content_id or 0) if change is not None else None
            after = bodies.get(change.after_content_id or 0) if change is not None else None
            out.append(
                NoticeContext(
                    site=found.sites.get(one.site_id or 0),
                    change=change,
                    before=None if before is None else before.content,
                    after=None if after is None else after.content,
                    values=found.values.get(one.change_id or 0, {}),
                )
            )
        return out

    # Lists.

    async def list_notices(
        self, wanted: NoticeFilter, limit: int = 100, cursor: str | None = None, order: Order | None = None
    ) -> ListPage[StoredNotice]:
        """Returns notices, newest first unless cursor or `order` say otherwise.

        Raises `InvalidValueError` for a bad cursor, an order that differs from the cursor's, or a bad limit (1 to
        1000).
        """

        def work(connection: Connection) -> ListPage[StoredNotice]:
            position = Position.of("n", cursor, order, unnamed=Order.NEWEST)
            statement = box.selected()
            for name in NoticeFilter.__slots__:
                value = getattr(wanted, name)
                if value is not None:
                    statement = statement.where(outbox.c[name] == value)
            return position.page(box.notices(position.select(statement, outbox.c.id, limit), connection), limit)

        return await self._database.read(work)

    async def list_attempts(
        self,
        channel_id: int | None = None,
        message_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[Attempt]:
        """Returns attempts, newest first unless cursor or `order` say otherwise. Errors as of `list_notices`."""

        def work(connection: Connection) -> ListPage[Attempt]:
            position = Position.of("a", cursor, order, unnamed=Order.NEWEST)
            columns = [attempt.c[name] for name in Attempt.__struct_fields__]
            statement = select(*columns)
            if channel_id is not None:
                statement = statement.where(attempt.c.channel_id == channel_id)
            if message_id is not None:
                statement = statement.where(attempt.c.message_id == message_id)
            found = connection.execute(position.select(statement, attempt.c.id, limit))
            return position.page([Attempt(*row) for row in found], limit)

        return await self._database.read(work)
