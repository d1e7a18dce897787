"""Chooses what a channel sends next as one message, and notes it before anything is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, bindparam, exists, func, or_, select, update

from pollerd.events import NoticeState
from pollerd.storage.db.schema import outbox
from pollerd.storage.db.statements import Statements
from pollerd.storage.notifications.notification_values import Claim, StoredNotice
from pollerd.storage.notifications.rows import FREE, IN_MESSAGE, NO_DIGEST, OPEN, SENDING, WAITING, notice_of

DIGEST_MOST = 10_000
"""Most notices of a digest's message; what is more goes into another one."""

_C = outbox.c
_EARLIER = outbox.alias("earlier")
_MINE = _C.channel_id == bindparam("channel")
_DUE = _C.due_at <= bindparam("now", type_=Float)


def _earlier(*holds: ColumnElement[bool]) -> ColumnElement[bool]:
    """Returns whether an earlier open notice of the same site and channel, outside of digests, holds a notice up."""
    e = _EARLIER.c
    same = (e.channel_id == _C.channel_id, e.site_id == _C.site_id, e.id < _C.id)
    return exists().where(*same, e.ended_at.is_(None), e.digest == NO_DIGEST, *holds)


# Earlier ones that are free and due are in front in the same list, so that they are taken before or with it.
_HELD_UP = _earlier(or_(_EARLIER.c.message_id.is_not(None), _EARLIER.c.due_at > bindparam("now", type_=Float)))
_AGAIN = select(_C.message_id).where(_MINE, IN_MESSAGE, _C.state == WAITING, _DUE).order_by(_C.due_at, _C.id).limit(1)
_MEMBERS = select(outbox).where(_MINE, IN_MESSAGE, _C.message_id == bindparam("message")).order_by(_C.id)
_DIGEST = select(_C.digest).where(_MINE, FREE, _C.digest != NO_DIGEST, _DUE).order_by(_C.due_at, _C.id).limit(1)
_OF_DIGEST = select(outbox).where(_MINE, FREE, _C.digest == bindparam("key"), _DUE).order_by(_C.id).limit(DIGEST_MOST)
_ALONE = (
    select(outbox)
    .where(_MINE, FREE, _C.digest == NO_DIGEST, _DUE, ~_HELD_UP)
    .order_by(_C.id)
    .limit(bindparam("most", type_=_C.id.type))
)
_IS_NEXT = or_(_C.message_id.is_not(None), _C.digest != NO_DIGEST, ~_earlier())
_NEXT_DUE = (
    select(_C.channel_id, func.min(_C.due_at)).where(OPEN, _C.state == WAITING, _IS_NEXT).group_by(_C.channel_id)
)


def claim(
    connection: Connection, sql: Statements, channel_id: int, now: float, limit: int, group_from: int | None
) -> Claim | None:
    """Returns what the channel sends now, noted as being sent; None: nothing is due."""
    given = {"channel": channel_id, "now": now}
    again = connection.execute(_AGAIN, given).scalar()
    if again is not None:
        rows = _notices(connection, _MEMBERS, {"channel": channel_id, "message": again})
        return _noted(connection, sql, rows, again)
    key = connection.execute(_DIGEST, given).scalar()
    if key is not None:
        return _noted(connection, sql, _notices(connection, _OF_DIGEST, {**given, "key": key}))
    most = 1 if group_from is None else max(limit, group_from)
    rows = _notices(connection, _ALONE, {**given, "most": most})
    grouped = group_from is not None and len(rows) >= group_from
    return _noted(connection, sql, rows[: limit if grouped else 1]) if rows else None


def next_due(connection: Connection, channel_id: int | None) -> dict[int, float]:
    """Returns when each channel has something to send; those that have nothing, or are sending all, are missing.

    It may be past. What waits for an earlier one of its site does not count.
    """
    wanted = _NEXT_DUE if channel_id is None else _NEXT_DUE.where(_C.channel_id == channel_id)
    return dict(map(tuple, connection.execute(wanted)))


def message_id_of(event_ids: Sequence[str]) -> str:
    """Returns the id of a message: the only event's own, or a hash of all. Without "."."""
    if len(event_ids) == 1:
        return event_ids[0]
    return f"group-{hashlib.sha256(chr(10).join(event_ids).encode()).hexdigest()[:32]}"


def release(connection: Connection) -> int:
    """Makes messages that an earlier run was sending wait for their next attempt; returns how many notices."""
    sending = update(outbox).where(OPEN, _C.state == SENDING)
    return connection.execute(sending.values(state=WAITING)).rowcount


def _notices(connection: Connection, statement: Any, given: dict[str, Any]) -> list[StoredNotice]:
    return [notice_of(row) for row in connection.execute(statement, given)]


def _noted(
    connection: Connection, sql: Statements, rows: Sequence[StoredNotice], message_id: str | None = None
) -> Claim:
    """Notes these as being sent in one message."""
    message_id = message_id or message_id_of([row.event_id for row in rows])
    change = update(outbox).where(sql.among(_C.id, "ids")).values(state=SENDING, message_id=message_id)
    connection.execute(change, {"ids": sql.many(row.id for row in rows)})
    sent = tuple(replace(row, state=NoticeState.SENDING, message_id=message_id) for row in rows)
    return Claim(rows[0].channel_id, message_id, sent, rows[0].attempts, rows[0].digest)
