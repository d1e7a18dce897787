"""The outbox: notices to be sent, claimed as messages, and ended as sent, failed or waiting again."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, and_, exists, func, or_, select, union_all, update

from pollerd.errors import InvalidValueError
from pollerd.events import Incident, Notice, NoticeState
from pollerd.storage.delivery_log import DeliveryLog, FactRows, unpacked_facts
from pollerd.storage.encoding import storable_word
from pollerd.storage.engine import Database
from pollerd.storage.notices import (
    DEAD,
    EVENT_ID,
    FREE,
    IN_MESSAGE,
    IS_DEAD,
    IS_SENDING,
    IS_WAITING,
    OF_CHANNELS,
    SITE_ID,
    WAITING,
    OutboxStatements,
    Row,
    notice_of,
    notice_row,
)
from pollerd.storage.notification_values import AttemptEnd, ClaimedMessage, DueTimes, NewMessages, QueueCounts
from pollerd.storage.rules import pause_statement
from pollerd.storage.schema import channel, outbox, site
from pollerd.storage.statements import Statements, run, run_each
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.texts import N_, _

DIGEST_MOST = 10_000
"""Most notices of a digest's message; what is more goes into another one."""
EXPIRED = N_("not sent within the time that the outbox keeps it")
PIECE = 5_000
_C = outbox.c
_OTHER = outbox.alias("other")


class Outbox(Subject):
    """What is still to be sent, and is being sent."""

    def __init__(self, *, database: Database, sql: Statements, log: DeliveryLog, statements: OutboxStatements) -> None:
        self._database, self._sql, self._log, self._statements = database, sql, log, statements

    @writes
    def put(self, connection: Connection, notices: Sequence[Notice], incidents: Sequence[Incident] = ()) -> None:
        """Writes notices of events that no poll is the cause of; those that a channel was given before are left out.

        incidents: opened with them.
        """
        ids = {notice.site_id for notice in notices if notice.site_id is not None}
        statement = select(site.c.id, site.c.url).where(self._sql.in_list(site.c.id, "ids"))
        result = connection.execute(statement, {"ids": self._sql.id_list(ids)}) if ids else ()
        urls: dict[int | None, str] = dict(map(tuple, result))
        rows = [notice_row(notice, urls.get(notice.site_id)) for notice in notices]
        self._sql.locks.number_events(connection)
        run_each(connection, self._sql.insert_notice, rows)
        opened = [(incident.rule_id, incident.site_id, incident.id, incident.since) for incident in incidents]
        run_each(connection, self._sql.open_incident, opened)

    # Claims: the notices that a channel sends next as one message, noted before anything is sent.

    async def claim(
        self,
        channel_id: int,
        now: float,
        *,
        limit: int = 1000,
        group_from: int | None = None,
        begins: NewMessages = NewMessages.ALL,
    ) -> ClaimedMessage | None:
        """Returns what the channel sends now as one message; None: nothing is due, or may be begun.

        Its id and members are stored before this returns, so that each later attempt sends the same. In this order: a
        message that is to be tried again; what is due of one digest; if `group_from` (1 or more) or more notices are
        due, these as a group, `limit` at most; the oldest that is due. Messages of first sights alone come last, in the
        same order; that of a site goes before its first change, or with it. Notices of one site and outside of digests
        go in the order of their ids: one waits while an earlier one is open that is not in the same message. Whether
        the channel is paused is not looked at.
        """
        _check_limit(limit)
        return await _with_facts(*await self._claim(_Choice(channel_id, now, limit, group_from, begins)))

    @writes
    def _claim(self, connection: Connection, choice: _Choice) -> tuple[ClaimedMessage | None, FactRows | None]:
        """Returns a message, and the facts of a single notice: those of many are not read while commits wait."""
        claimed = self._chosen(connection, choice)
        if claimed is None or len(claimed.notices) > 1:
            return claimed, None
        return claimed, self._log.read_facts.within(connection, claimed.notices, 1)

    def _chosen(self, connection: Connection, choice: _Choice) -> ClaimedMessage | None:
        """Returns what the channel sends now, noted as being sent."""
        sql, (channel_id, now, limit, group_from, begins) = self._statements, choice
        urgent, again, key = run(connection, sql.first, *[channel_id, now] * 3)[0]
        most = 1 if group_from is None else max(limit, group_from)

        def taken(rows: Sequence[Row]) -> Sequence[Row]:
            return rows[: limit if group_from is not None and len(rows) >= group_from else 1]

        if urgent is None and NewMessages.OTHERS in begins:
            if key is not None:
                return self._noted(connection, run(connection, sql.of_digest, channel_id, key, now, DIGEST_MOST))
            if rows := taken(run(connection, sql.others, channel_id, now, now, most)):
                return self._noted(connection, self._with_first_sights(connection, channel_id, rows)[:limit])
        if again is not None:
            message_id = urgent or again
            return self._noted(connection, run(connection, sql.members, channel_id, message_id), message_id)
        if NewMessages.FIRST_SEEN in begins and (
            rows := taken(run(connection, sql.first_seen, channel_id, now, now, most))
        ):
            return self._noted(connection, rows)
        return None

    def _with_first_sights(self, connection: Connection, channel_id: int, rows: Sequence[Row]) -> Sequence[Row]:
        """Returns the rows with the first sights of their sites, by id; instead of a single one, what goes before."""
        sql, last = self._statements, {row[SITE_ID]: row[0] for row in rows if row[SITE_ID] is not None}
        result = run(connection, sql.first_sights, channel_id, sql.id_list(last)) if last else ()
        before = [row for row in result if row[0] < last[row[SITE_ID]]]
        return before[:1] or rows if len(rows) == 1 else sorted([*before, *rows], key=lambda row: row[0])

    def _noted(self, connection: Connection, rows: Sequence[Row], message_id: str | None = None) -> ClaimedMessage:
        """Notes these as being sent in one message."""
        sql, message_id = self._statements, message_id or message_id_of([row[EVENT_ID] for row in rows])
        run(connection, sql.note, message_id, sql.id_list(row[0] for row in rows))
        sent = tuple(notice_of(row, NoticeState.SENDING, message_id) for row in rows)
        return ClaimedMessage(sent[0].channel_id, message_id, sent, sent[0].attempts, sent[0].digest)

    async def part(self, claimed: ClaimedMessage, first: int) -> ClaimedMessage:
        """Returns a message of the first notices of a claimed one that was never tried; the others are due as before.

        first: 1 to one less than it has. Raises `InvalidValueError`.
        """
        if not 1 <= first < len(claimed.notices) or claimed.attempts:
            raise InvalidValueError(
                "first", _("1 to {count}, of a message never tried", count=len(claimed.notices) - 1), first
            )
        return await self._part(claimed, first)

    @writes
    def _part(self, connection: Connection, claimed: ClaimedMessage, first: int) -> ClaimedMessage:
        sql, kept, rest = self._statements, claimed.notices[:first], claimed.notices[first:]
        message_id = message_id_of([notice.event_id for notice in kept])
        run(connection, sql.free, sql.id_list(notice.id for notice in rest))
        run(connection, sql.note, message_id, sql.id_list(notice.id for notice in kept))
        sent = tuple(msgspec.structs.replace(notice, message_id=message_id) for notice in kept)
        return dataclasses.replace(claimed, message_id=message_id, notices=sent)

    @writes
    def release(self, connection: Connection, channel_id: int | None = None) -> int:
        """Makes what an earlier run was sending wait for the next attempt, as the same messages.

        To be called at a start, before anything is claimed; channel_id: of a channel whose sending was broken off.
        Returns the number of notices.
        """
        marked = update(outbox).where(OF_CHANNELS, IS_SENDING)
        mine = marked if channel_id is None else marked.where(outbox.c.channel_id == channel_id)
        return connection.execute(mine.values(state=WAITING)).rowcount

    @reads
    def next_due(self, connection: Connection, channel_id: int | None = None) -> dict[int, DueTimes]:
        """Returns when each channel, or this one, has something to send; it may be past.

        Channels that have nothing, or whose messages are all being sent, are missing.
        """
        if channel_id is None:
            rows = run(connection, self._statements.next_due)
        else:
            rows = run(connection, self._statements.next_due_of, *[channel_id] * self._statements.channels_named)
        due: defaultdict[int, dict[str, float]] = defaultdict(dict)
        for its, name, due_at in rows:
            due[its][name] = due_at
        return {its: DueTimes(**times) for its, times in due.items()}

    @reads
    def digests_sent(self, connection: Connection, since: float) -> list[str]:
        """Returns the keys of digests that were sent since then, or are being sent, in the order of their notices."""
        c = outbox.c
        claimed = and_(c.ended_at.is_(None), c.message_id.is_not(None))
        statement = select(c.digest).where(or_(c.ended_at > since, claimed), c.digest != "").group_by(c.digest)
        return list(connection.execute(statement.order_by(func.max(c.id))).scalars())

    @reads
    def sent_since(self, connection: Connection, channel_id: int, since: float) -> list[tuple[float, int, bool]]:
        """Returns the messages sent on a channel since then, oldest first: (epoch s, number of events, whether of first
        sights alone).
        """
        rows = run(connection, self._statements.sent_since, channel_id, since)
        return [(at, events, bool(first_seen)) for at, events, first_seen in rows]

    # Ends of attempts: notices are sent, wait again, are dead, or are queued again by a user.

    async def ended(
        self, channel_id: int, message_id: str, now: float, end: AttemptEnd, notices: Sequence[Notice] = ()
    ) -> int:
        """Notes how the attempt to send a claimed message ended, with its row in the log and what follows for the
        channel.

        notices: written in the same transaction, for example that the channel is down. Returns how many notices of the
        message it concerned. Raises `InvalidValueError`.
        """
        _check_end(end)
        return await self._end(channel_id, message_id, now, end, notices)

    async def end_and_claim(
        self,
        claimed: ClaimedMessage,
        now: float,
        end: AttemptEnd,
        notices: Sequence[Notice] = (),
        *,
        limit: int = 1000,
        group_from: int | None = None,
        begins: NewMessages = NewMessages.ALL,
    ) -> ClaimedMessage | None:
        """Notes the end of an attempt as `ended` does, and returns what the channel sends next as `claim` does, both in
        one transaction.
        """
        _check_end(end)
        _check_limit(limit)
        choice = _Choice(claimed.channel_id, now, limit, group_from, begins)
        return await _with_facts(*await self._end_and_claim(claimed.message_id, end, notices, choice))

    @writes
    def _end_and_claim(
        self, connection: Connection, message_id: str, end: AttemptEnd, notices: Sequence[Notice], choice: _Choice
    ) -> tuple[ClaimedMessage | None, FactRows | None]:
        self._end.within(connection, choice.channel_id, message_id, choice.now, end, notices)
        return self._claim.within(connection, choice)

    @writes
    def _end(
        self,
        connection: Connection,
        channel_id: int,
        message_id: str,
        now: float,
        end: AttemptEnd,
        notices: Sequence[Notice],
    ) -> int:
        if notices:
            self._sql.locks.number_events(connection)
        times = (end.due_at, None) if end.state is NoticeState.WAITING else (None, now)
        values = (end.state.value, storable_word(end.detail), *times, channel_id, message_id)
        events = connection.exec_driver_sql(self._statements.end, values).rowcount
        self._write_attempt(connection, channel_id, message_id, now, events, end)
        run_each(connection, self._sql.insert_notice, [notice_row(notice) for notice in notices])
        return events

    @writes
    def log_attempt(
        self, connection: Connection, channel_id: int, message_id: str, now: float, end: AttemptEnd
    ) -> None:
        """Notes an attempt that concerns no notice: a user tries a channel."""
        self._write_attempt(connection, channel_id, message_id, now, 1, end)

    def _write_attempt(
        self, connection: Connection, channel_id: int, message_id: str, now: float, events: int, end: AttemptEnd
    ) -> None:
        """Writes an attempt into the log, and what it means for the channel."""
        detail = storable_word(end.detail)
        row = (now, channel_id, message_id, events, end.outcome, end.status, detail, end.duration)
        run_each(connection, self._statements.log, [row])
        sent = end.state is NoticeState.SENT
        error = "" if sent else detail or end.outcome
        run(connection, self._statements.of_channel, now if sent else None, error, channel_id)
        if end.resumes:
            connection.execute(pause_statement(channel_id, None, now))
        if end.pause is not None:
            connection.execute(pause_statement(channel_id, end.pause, now))

    async def resend(
        self, now: float, *, notice_ids: Sequence[int] | None = None, channel_id: int | None = None
    ) -> int:
        """Makes dead notices wait anew: those with these ids, of this channel, or both; returns how many.

        Those of deleted channels stay dead. Raises `InvalidValueError` if neither is given.
        """
        if notice_ids is None and channel_id is None:
            raise InvalidValueError("notices", _("ids, or a channel"), None)
        return await self._resend(now, notice_ids, channel_id)

    @writes
    def _resend(self, connection: Connection, now: float, ids: Sequence[int] | None, channel_id: int | None) -> int:
        conditions = [IS_DEAD, _C.channel_id.in_(select(channel.c.id))]
        parameters: dict[str, Any] = {}
        if ids is not None:
            conditions.append(self._sql.in_list(_C.id, "ids"))
            parameters["ids"] = self._sql.id_list(ids)
        if channel_id is not None:
            conditions.append(_C.channel_id == channel_id)
        anew = {"state": WAITING, "message_id": None, "attempts": 0, "ended_at": None}
        again = update(outbox).where(*conditions).values({**anew, "due_at": now, "waits_since": now})
        return connection.execute(again, parameters).rowcount

    async def expire(self, before: float, now: float) -> dict[int, int]:
        """Ends notices that wait since before that time as dead; returns their numbers by channel.

        Those being sent are left out. Runs in short transactions.
        """
        total: Counter[int] = Counter()
        while gone := await self._expire_some(before, now):
            total.update(gone)
        return dict(total)

    @writes
    def _expire_some(self, connection: Connection, before: float, now: float) -> dict[int, int]:
        """Ends up to `PIECE` notices; returns their numbers by channel.

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
        ending = update(outbox).where(_C.id.in_(ids)).values(state=DEAD, ended_at=now, last_detail=_(EXPIRED))
        return dict(Counter(connection.execute(ending.returning(_C.channel_id)).scalars()))

    @reads
    def counts(self, connection: Connection) -> dict[int, QueueCounts]:
        """Returns what each channel has in the outbox; channels without any are missing."""
        counts: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        numbers = select(_C.channel_id, _C.state, func.count(), func.min(_C.waits_since)).group_by(
            _C.channel_id, _C.state
        )
        still_open = union_all(numbers.where(FREE), numbers.where(OF_CHANNELS))
        for channel_id, state, number, oldest in connection.execute(still_open):
            of_channel = counts[channel_id]
            of_channel[state] = of_channel.get(state, 0) + number
            of_channel["oldest"] = min(oldest, of_channel.get("oldest", oldest))
        dead = select(_C.channel_id, func.count()).where(IS_DEAD).group_by(_C.channel_id)
        for channel_id, number in connection.execute(dead):
            counts[channel_id][DEAD] = number
        return {channel_id: QueueCounts(**fields) for channel_id, fields in counts.items()}


class _Choice(NamedTuple):
    """Of what a channel's next message is chosen."""

    channel_id: int
    now: float
    limit: int
    group_from: int | None
    begins: NewMessages


def message_id_of(event_ids: Sequence[str]) -> str:
    """Returns the id of a message: the only event's own, or a hash of all. Without "."."""
    if len(event_ids) == 1:
        return event_ids[0]
    return f"group-{hashlib.sha256(chr(10).join(event_ids).encode()).hexdigest()[:32]}"


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidValueError("limit", _("at least 1"), limit)


def _check_end(end: AttemptEnd) -> None:
    """Raises `InvalidValueError` for an end that is none."""
    if end.state is NoticeState.SENDING:
        raise InvalidValueError("state", _("waiting, sent or dead"), end.state.value)
    if end.state is NoticeState.WAITING and end.due_at is None:
        raise InvalidValueError("due_at", _("a time, where notices wait"), None)


async def _with_facts(claimed: ClaimedMessage | None, rows: FactRows | None) -> ClaimedMessage | None:
    """Returns the message with its facts, where they were read."""
    if claimed is None or rows is None:
        return claimed
    return dataclasses.replace(claimed, facts=tuple(await unpacked_facts(claimed.notices, rows)))
