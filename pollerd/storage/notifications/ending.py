"""What becomes of notices: sent, tried again, dead, sent anew."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, exists, func, or_, select, union_all, update

from pollerd.errors import InvalidValueError
from pollerd.events import NoticeState
from pollerd.storage.db.rows import run_each
from pollerd.storage.db.schema.notifications import channel, outbox
from pollerd.storage.db.statements import Statements, run
from pollerd.storage.encoding.text_encoding import storable_word
from pollerd.storage.notifications.channels import pause_statement
from pollerd.storage.notifications.notification_values import AttemptEnd, QueueCounts
from pollerd.storage.notifications.outbox_statements import OutboxStatements
from pollerd.storage.notifications.rows import DEAD, FREE, IN_MESSAGE, IS_DEAD, IS_WAITING, OF_CHANNELS, WAITING

PIECE = 5_000
_C = outbox.c
_OTHER = outbox.alias("other")


def check_end(end: AttemptEnd) -> None:
    """Raises `InvalidValueError` for an end that is none."""
    if end.state is NoticeState.SENDING:
        raise InvalidValueError("state", "waiting, sent or dead", end.state.value)
    if end.state is NoticeState.WAITING and end.due_at is None:
        raise InvalidValueError("due_at", "a time, where notices wait", None)


def ended(
    connection: Connection, sql: OutboxStatements, channel_id: int, message_id: str, now: float, end: AttemptEnd
) -> int:
    """Notes the end of an attempt, in the log too; returns how many notices it concerned."""
    waits = end.state is NoticeState.WAITING
    times = (end.due_at, None) if waits else (None, now)
    given = (end.state.value, storable_word(end.detail), *times, channel_id, message_id)
    events = connection.exec_driver_sql(sql.end, given).rowcount
    log(connection, sql, channel_id, message_id, now, events, end)
    return events


def log(
    connection: Connection,
    sql: OutboxStatements,
    channel_id: int,
    message_id: str,
    now: float,
    events: int,
    end: AttemptEnd,
) -> None:
    """Writes an attempt into the log, and what it means for the channel."""
    detail = storable_word(end.detail)
    row = (now, channel_id, message_id, events, end.outcome, end.status, detail, end.duration)
    run_each(connection, sql.log, [row])
    sent = end.state is NoticeState.SENT
    error = "" if sent else detail or end.outcome
    run(connection, sql.of_channel, now if sent else None, error, channel_id)
    if end.resumes:
        connection.execute(pause_statement(channel_id, None, now))
    if end.pause is not None:
        connection.execute(pause_statement(channel_id, end.pause, now))


def resend(
    connection: Connection, sql: Statements, now: float, ids: Sequence[int] | None, channel_id: int | None
) -> int:
    """Makes dead notices wait anew: those with these ids, of this channel. Returns how many.

    Those of deleted channels stay dead.
    """
    wanted = [IS_DEAD, _C.channel_id.in_(select(channel.c.id))]
    given: dict[str, Any] = {}
    if ids is not None:
        wanted.append(sql.among(_C.id, "ids"))
        given["ids"] = sql.many(ids)
    if channel_id is not None:
        wanted.append(_C.channel_id == channel_id)
    anew = {"state": WAITING, "message_id": None, "attempts": 0, "ended_at": None, "due_at": now, "waits_since": now}
    return connection.execute(update(outbox).where(*wanted).values(anew), given).rowcount


def expire(connection: Connection, before: float, now: float, why: str) -> dict[int, int]:
    """Ends up to `PIECE` notices that wait since before that time as dead; returns their numbers by channel.

    A message that was tried goes as a whole, once its youngest notice is that old: each attempt sends the same.
    """
    o = _OTHER.c
    younger = exists().where(
        o.message_id == _C.message_id, o.channel_id == _C.channel_id, o.ended_at.is_(None), o.waits_since >= before
    )
    whole = or_(_C.message_id.is_(None), ~younger)
    old = and_(_C.waits_since < before, whole)
    lost = _C.channel_id.not_in(select(channel.c.id))
    either = (select(_C.id).where(part, IS_WAITING, or_(old, lost)) for part in (FREE, IN_MESSAGE))
    ids = union_all(*either).limit(PIECE)
    ending = update(outbox).where(_C.id.in_(ids)).values(state=DEAD, ended_at=now, last_detail=why)
    return dict(Counter(connection.execute(ending.returning(_C.channel_id)).scalars()))


def counts(connection: Connection) -> dict[int, QueueCounts]:
    """Returns what each channel has in the outbox; channels without any are missing."""
    found: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    numbers = select(_C.channel_id, _C.state, func.count(), func.min(_C.waits_since)).group_by(_C.channel_id, _C.state)
    still_open = union_all(numbers.where(FREE), numbers.where(OF_CHANNELS))
    for channel_id, state, number, oldest in connection.execute(still_open):
        of_channel = found[channel_id]
        of_channel[state] = of_channel.get(state, 0) + number
        of_channel["oldest"] = min(oldest, of_channel.get("oldest", oldest))
    dead = select(_C.channel_id, func.count()).where(IS_DEAD).group_by(_C.channel_id)
    for channel_id, number in connection.execute(dead):
        found[channel_id][DEAD] = number
    return {channel_id: QueueCounts(**given) for channel_id, given in found.items()}
