"""The outbox: what is to be told, claimed as messages, and what became of each attempt."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, exists, func, insert, or_, select, update

from pollerd.events import EventKind, NoticeState
from pollerd.storage.db.notification_schema import attempt, channel, outbox
from pollerd.storage.encoding.text_encoding import storable_word
from pollerd.storage.notifications.notification_values import (
    ClaimedMessage,
    DeliveryEnd,
    OutboxCounts,
    StoredNotice,
)

_C = outbox.c
_COLUMNS = [getattr(_C, name) for name in StoredNotice.__struct_fields__]
_WAITING, _SENDING = NoticeState.WAITING.value, NoticeState.SENDING.value
_OPEN = _C.ended_at.is_(None)
_EARLIER = outbox.alias("earlier")
_BLOCKED = exists().where(
    _EARLIER.c.channel_id == _C.channel_id,
    _EARLIER.c.ended_at.is_(None),
    _EARLIER.c.site_id == _C.site_id,
    _EARLIER.c.id < _C.id,
    _EARLIER.c.message_id.is_not(None),
    _EARLIER.c.digest == "",
)
"""An earlier notice of the site is in a message that has not ended: later ones wait, so that their order is kept."""
_FREE = and_(_C.message_id.is_(None), or_(_C.digest != "", ~_BLOCKED))


def notice_of(row: Sequence[Any]) -> StoredNotice:
    """Returns a row of the outbox."""
    values = dict(zip(StoredNotice.__struct_fields__, row, strict=True))
    return StoredNotice(**{**values, "kind": EventKind(values["kind"]), "state": NoticeState(values["state"])})


def notices(wanted: Select[Any], connection: Connection) -> list[StoredNotice]:
    """Returns the notices that a statement selects."""
    return [notice_of(row) for row in connection.execute(wanted)]


def selected() -> Select[Any]:
    """Returns the statement that selects notices."""
    return select(*_COLUMNS)


def claim(connection: Connection, channel_id: int, now: float, limit: int, group_from: int) -> ClaimedMessage | None:
    """Takes what is to be sent now as one message; None: nothing is due.

    First a message that is tried again, with the same notices; then a digest; then, from `group_from` notices on, a
    group of them; else the oldest. What is taken belongs to its message from then on.
    """
    due = selected().where(_C.channel_id == channel_id, _OPEN, _C.state == _WAITING, _C.due_at <= now)
    again = connection.execute(due.where(_C.message_id.is_not(None)).order_by(_C.id).limit(1)).first()
    if again is not None:
        return _taken(connection, notices(_members(channel_id, notice_of(again).message_id or ""), connection), now)
    free = due.where(_FREE)
    first = connection.execute(free.where(_C.digest != "").order_by(_C.due_at, _C.id).limit(1)).first()
    if first is not None:
        digest = notice_of(first).digest
        return _taken(
            connection, notices(free.where(_C.digest == digest).order_by(_C.id).limit(limit), connection), now
        )
    alone = notices(free.where(_C.digest == "").order_by(_C.id).limit(limit), connection)
    if not alone:
        return None
    return _taken(connection, alone if len(alone) >= group_from else alone[:1], now)


def _members(channel_id: int, message_id: str) -> Select[Any]:
    mine = selected().where(_C.channel_id == channel_id, _C.message_id == message_id, _OPEN)
    return mine.order_by(_C.id)


def _taken(connection: Connection, found: list[StoredNotice], now: float) -> ClaimedMessage:
    """Makes the notices one message, if they are none yet, and marks them as being sent."""
    message_id = found[0].message_id or _message_id(found)
    values = {"state": _SENDING, "message_id": message_id, "since": func.coalesce(_C.since, now)}
    mine = _C.id.in_([one.id for one in found])
    connection.execute(update(outbox).where(mine).values(values))
    since = connection.execute(select(func.min(_C.since)).where(mine)).scalar_one()
    return ClaimedMessage(message_id, tuple(found), max(one.attempts for one in found), float(since))


def _message_id(found: list[StoredNotice]) -> str:
    """Returns the event's id; for several events a hash of their ids."""
    if len(found) == 1 and not found[0].digest:
        return found[0].event_id
    return f"msg_{hashlib.sha256(chr(10).join(sorted(one.event_id for one in found)).encode()).hexdigest()[:32]}"


def end(connection: Connection, ended: DeliveryEnd) -> None:
    """Notes an attempt, and what becomes of the notices of its message."""
    mine = and_(_C.channel_id == ended.channel_id, _C.message_id == ended.message_id, _OPEN)
    detail = storable_word(ended.detail)
    values: dict[str, Any] = {"last_detail": detail}
    if ended.next_at is not None:
        values |= {"state": _WAITING, "due_at": ended.next_at, "attempts": _C.attempts + 1}
    else:
        final = NoticeState.DEAD if ended.dead else NoticeState.SENT
        values |= {"state": final.value, "ended_at": ended.at, "attempts": _C.attempts + int(ended.dead)}
    events = connection.execute(update(outbox).where(mine).values(values)).rowcount
    connection.execute(
        insert(attempt).values(
            at=ended.at,
            channel_id=ended.channel_id,
            message_id=ended.message_id,
            events=events,
            outcome=ended.outcome,
            status=ended.status,
            detail=detail,
            duration=ended.duration,
        )
    )
    sent = ended.next_at is None and not ended.dead
    known = {"last_sent_at": ended.at, "last_error": ""} if sent else {"last_error": detail}
    connection.execute(update(channel).where(channel.c.id == ended.channel_id).values(known))


def release(connection: Connection) -> int:
    """Makes what was being sent when its process ended wait again; returns how many notices."""
    unended = update(outbox).where(_OPEN, _C.state == _SENDING)
    return int(connection.execute(unended.values(state=_WAITING)).rowcount)


def next_due(connection: Connection) -> dict[int, float]:
    """Returns when something is due next on each channel, by its id."""
    waiting = and_(_OPEN, _C.state == _WAITING, or_(_C.message_id.is_not(None), _FREE))
    rows = connection.execute(select(_C.channel_id, func.min(_C.due_at)).where(waiting).group_by(_C.channel_id))
    return {channel_id: float(due_at) for channel_id, due_at in rows}


def resend(connection: Connection, now: float, *, ids: Sequence[int] = (), channel_id: int | None = None) -> int:
    """Makes dead notices wait anew: those of these ids, or all of a channel. Returns how many."""
    dead = update(outbox).where(_C.state == NoticeState.DEAD.value)
    dead = dead.where(_C.id.in_(ids)) if channel_id is None else dead.where(_C.channel_id == channel_id)
    fresh: dict[str, Any] = {
        "state": _WAITING,
        "due_at": now,
        "digest": "",
        "attempts": 0,
        "message_id": None,
        "since": None,
        "ended_at": None,
    }
    return int(connection.execute(dead.values(fresh)).rowcount)


def expire(connection: Connection, before: float, now: float, reason: str) -> int:
    """Makes notices dead that were due before `before` and are not sent yet; returns how many."""
    late = and_(_OPEN, _C.state == _WAITING, func.coalesce(_C.since, _C.due_at) < before)
    values = {"state": NoticeState.DEAD.value, "ended_at": now, "last_detail": reason}
    return int(connection.execute(update(outbox).where(late).values(values)).rowcount)


def prune(connection: Connection, before: float, most: int) -> int:
    """Deletes at most `most` notices that ended before `before`, and as many attempts; returns how many of both."""
    old = select(_C.id).where(_C.ended_at < before).order_by(_C.ended_at).limit(most)
    gone = connection.execute(delete(outbox).where(_C.id.in_(old))).rowcount
    a = attempt.c
    tried = select(a.id).where(a.at < before).order_by(a.at).limit(most)
    return int(gone + connection.execute(delete(attempt).where(a.id.in_(tried))).rowcount)


def counts(connection: Connection) -> OutboxCounts:
    """Counts what is open, what is dead, and the channels that are paused."""
    rows = connection.execute(select(_C.state, func.count()).where(_OPEN).group_by(_C.state)).all()
    by_state: dict[str, int] = {row[0]: row[1] for row in rows}
    dead = select(func.count()).where(_C.state == NoticeState.DEAD.value)
    oldest = select(func.min(_C.due_at)).where(_OPEN, _C.state == _WAITING)
    paused = select(func.count()).select_from(channel).where(channel.c.paused_at.is_not(None))
    return OutboxCounts(
        waiting=by_state.get(_WAITING, 0),
        sending=by_state.get(_SENDING, 0),
        dead=connection.execute(dead).scalar_one(),
        oldest_due_at=connection.execute(oldest).scalar(),
        paused_channels=connection.execute(paused).scalar_one(),
    )
