"""Lists of notices and of attempts to send them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from pollerd.errors import NotFoundError
from pollerd.events import EventKind, NoticeState
from pollerd.storage.db.schema.notifications import attempt, outbox
from pollerd.storage.encoding.cursors import Order, Position
from pollerd.storage.notifications.notification_values import Attempt, NoticeFilter, StoredNotice
from pollerd.storage.notifications.rows import IS_DEAD, attempt_of, notice_of
from pollerd.storage.values import ListPage

_PLAIN = ("channel_id", "change_id", "site_id", "message_id")


def get_notice(connection: Connection, notice_id: int) -> StoredNotice:
    """Returns the notice. Raises `NotFoundError`."""
    row = connection.execute(select(outbox).where(outbox.c.id == notice_id)).one_or_none()
    if row is None:
        raise NotFoundError("notice", notice_id)
    return notice_of(row)


def last_notice(connection: Connection, kind: EventKind) -> StoredNotice | None:
    """Returns the notice of this kind that was written last."""
    wanted = select(outbox).where(outbox.c.kind == kind.value).order_by(outbox.c.id.desc()).limit(1)
    row = connection.execute(wanted).one_or_none()
    return None if row is None else notice_of(row)


def list_notices(
    connection: Connection, wanted: NoticeFilter, limit: int, cursor: str | None, order: Order | None
) -> ListPage[StoredNotice]:
    """Returns matching notices in the cursor's order, else in `order`, else newest first."""
    statement = select(outbox)
    for name in _PLAIN:
        value: Any = getattr(wanted, name)
        if value is not None:
            statement = statement.where(outbox.c[name] == value)
    if wanted.state is NoticeState.DEAD:
        statement = statement.where(IS_DEAD)
    elif wanted.state is not None:
        statement = statement.where(outbox.c.state == wanted.state.value)
    if wanted.state in (NoticeState.WAITING, NoticeState.SENDING):
        statement = statement.where(outbox.c.ended_at.is_(None))
    position = Position.of("o", cursor, order, unnamed=Order.NEWEST)
    rows = connection.execute(position.select(statement, outbox.c.id, limit))
    return position.page([notice_of(row) for row in rows], limit)


def list_attempts(
    connection: Connection,
    channel_id: int | None,
    message_id: str | None,
    limit: int,
    cursor: str | None,
    order: Order | None,
) -> ListPage[Attempt]:
    """Returns attempts, in the cursor's order, else in `order`, else newest first."""
    statement = select(attempt)
    if channel_id is not None:
        statement = statement.where(attempt.c.channel_id == channel_id)
    if message_id is not None:
        statement = statement.where(attempt.c.message_id == message_id)
    position = Position.of("d", cursor, order, unnamed=Order.NEWEST)
    rows = connection.execute(position.select(statement, attempt.c.id, limit))
    return position.page([attempt_of(row) for row in rows], limit)
