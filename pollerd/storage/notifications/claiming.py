"""Chooses what a channel sends next as one message, and notes it before anything is sent."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, and_, func, or_, select, update

from pollerd.events import NoticeState
from pollerd.storage.db.schema.notifications import outbox
from pollerd.storage.db.statements import run
from pollerd.storage.notifications.notification_values import ClaimedMessage, DueTimes, NewMessages
from pollerd.storage.notifications.outbox_statements import OutboxStatements
from pollerd.storage.notifications.rows import EVENT_ID, IS_SENDING, OF_CHANNELS, SITE_ID, WAITING, Row, notice_of

DIGEST_MOST = 10_000
"""Most notices of a digest's message; what is more goes into another one."""


def claim(
    connection: Connection,
    sql: OutboxStatements,
    channel_id: int,
    now: float,
    limit: int,
    group_from: int | None,
    begins: NewMessages,
) -> ClaimedMessage | None:
    """Returns what the channel sends now, noted as being sent; None: nothing is due, or may be begun."""
    urgent, again, key = run(connection, sql.first, *[channel_id, now] * 3)[0]
    most = 1 if group_from is None else max(limit, group_from)

    def taken(rows: Sequence[Row]) -> Sequence[Row]:
        return rows[: limit if group_from is not None and len(rows) >= group_from else 1]

    if urgent is None and NewMessages.OTHERS in begins:
        if key is not None:
            return _noted(connection, sql, run(connection, sql.of_digest, channel_id, key, now, DIGEST_MOST))
        if rows := taken(run(connection, sql.others, channel_id, now, now, most)):
            return _noted(connection, sql, _with_first_sights(connection, sql, channel_id, rows)[:limit])
    if again is not None:
        message_id = urgent or again
        return _noted(connection, sql, run(connection, sql.members, channel_id, message_id), message_id)
    if NewMessages.FIRST_SEEN in begins and (
        rows := taken(run(connection, sql.first_seen, channel_id, now, now, most))
    ):
        return _noted(connection, sql, rows)
    return None


def _with_first_sights(
    connection: Connection, sql: OutboxStatements, channel_id: int, rows: Sequence[Row]
) -> Sequence[Row]:
    """Returns the rows with the first sights of their sites, by id; instead of a single one, what goes before it."""
    last = {row[SITE_ID]: row[0] for row in rows if row[SITE_ID] is not None}
    found = run(connection, sql.first_sights, channel_id, sql.many(last)) if last else ()
    before = [row for row in found if row[0] < last[row[SITE_ID]]]
    return before[:1] or rows if len(rows) == 1 else sorted([*before, *rows], key=lambda row: row[0])


def next_due(connection: Connection, sql: OutboxStatements, channel_id: int | None) -> dict[int, DueTimes]:
    """Returns when each channel has something to send; those that have nothing, or are sending all, are missing.

    It may be past. What waits for an earlier one of its site does not count.
    """
    if channel_id is None:
        rows = run(connection, sql.next_due)
    else:
        rows = run(connection, sql.next_due_of, *[channel_id] * sql.channels_named)
    found: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for its, name, due_at in rows:
        found[its][name] = due_at
    return {its: DueTimes(**times) for its, times in found.items()}


def digests_sent(connection: Connection, since: float) -> list[str]:
    """Returns the keys of digests that were sent since then, or are being sent, in the order of their notices."""
    c = outbox.c
    claimed = and_(c.ended_at.is_(None), c.message_id.is_not(None))
    wanted = select(c.digest).where(or_(c.ended_at > since, claimed), c.digest != "").group_by(c.digest)
    return list(connection.execute(wanted.order_by(func.max(c.id))).scalars())


def part(connection: Connection, sql: OutboxStatements, claimed: ClaimedMessage, first: int) -> ClaimedMessage:
    """Returns a message of the first notices, noted in place of the claimed one; the others are due by themselves."""
    kept, rest = claimed.notices[:first], claimed.notices[first:]
    message_id = message_id_of([one.event_id for one in kept])
    run(connection, sql.free, sql.many(one.id for one in rest))
    run(connection, sql.note, message_id, sql.many(one.id for one in kept))
    sent = tuple(msgspec.structs.replace(one, message_id=message_id) for one in kept)
    return dataclasses.replace(claimed, message_id=message_id, notices=sent)


def message_id_of(event_ids: Sequence[str]) -> str:
    """Returns the id of a message: the only event's own, or a hash of all. Without "."."""
    if len(event_ids) == 1:
        return event_ids[0]
    return f"group-{hashlib.sha256(chr(10).join(event_ids).encode()).hexdigest()[:32]}"


def release(connection: Connection, channel_id: int | None) -> int:
    """Makes messages marked as being sent wait for their next attempt, of one channel or of all.

    Returns how many notices.
    """
    marked = update(outbox).where(OF_CHANNELS, IS_SENDING)
    mine = marked if channel_id is None else marked.where(outbox.c.channel_id == channel_id)
    return connection.execute(mine.values(state=WAITING)).rowcount


def hurry(connection: Connection, channel_id: int, now: float) -> None:
    """Makes messages that wait for their next attempt on the channel due now."""
    c = outbox.c
    waits = (c.channel_id == channel_id, c.ended_at.is_(None), c.message_id.is_not(None), c.due_at > now)
    connection.execute(update(outbox).where(*waits).values(due_at=now))


def _noted(
    connection: Connection, sql: OutboxStatements, rows: Sequence[Row], message_id: str | None = None
) -> ClaimedMessage:
    """Notes these as being sent in one message."""
    message_id = message_id or message_id_of([row[EVENT_ID] for row in rows])
    run(connection, sql.note, message_id, sql.many(row[0] for row in rows))
    sent = tuple(notice_of(row, NoticeState.SENDING, message_id) for row in rows)
    return ClaimedMessage(sent[0].channel_id, message_id, sent, sent[0].attempts, sent[0].digest)
