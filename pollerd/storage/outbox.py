"""The outbox: notices to be sent, claimed as messages, and ended as sent, failed or waiting again.

The statements are compiled once: for each message a few of them run.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Double,
    Select,
    Text,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
    union_all,
    update,
)

from pollerd.errors import InvalidValueError
from pollerd.events import EventKind, NoticeState
from pollerd.storage.encoding import storable_word
from pollerd.storage.notification_values import (
    Attempt,
    AttemptEnd,
    ClaimedMessage,
    DueTimes,
    NewMessages,
    QueueCounts,
    StoredNotice,
)
from pollerd.storage.rules import pause_statement
from pollerd.storage.schema import attempt, channel, outbox, site, site_tag
from pollerd.storage.statements import Statements, run, run_each

# Notices and attempts as rows.

Row = tuple[Any, ...]
WAITING, DEAD = NoticeState.WAITING.value, NoticeState.DEAD.value
SENDING_TEXT = f"'{NoticeState.SENDING}'"
EVENT_ID, SITE_ID = outbox.c.keys().index("event_id"), outbox.c.keys().index("site_id")

# The conditions of the partial indexes: written out, since a database does not look into parameters to choose an index.
NO_DIGEST: ColumnElement[str] = literal_column("''")
OPEN: ColumnElement[bool] = outbox.c.ended_at.is_(None)
FREE: ColumnElement[bool] = and_(OPEN, outbox.c.message_id.is_(None))
IN_MESSAGE: ColumnElement[bool] = and_(OPEN, outbox.c.message_id.is_not(None))
FIRST_SEEN: ColumnElement[str] = literal_column(f"'{EventKind.FIRST_SEEN}'")
OF_CHANNELS: ColumnElement[bool] = and_(IN_MESSAGE, outbox.c.channel_id.in_(select(channel.c.id)))
"""In a message of any channel: naming them makes SQLite choose the index of open ones."""
IS_DEAD: ColumnElement[bool] = outbox.c.state == literal_column(f"'{DEAD}'")
IS_WAITING: ColumnElement[bool] = outbox.c.state == literal_column(f"'{WAITING}'")
IS_SENDING: ColumnElement[bool] = outbox.c.state == literal_column(SENDING_TEXT)

_KINDS = {kind.value: kind for kind in EventKind}
_STATES = {state.value: state for state in NoticeState}
_STATE, _MESSAGE = outbox.c.keys().index("state"), outbox.c.keys().index("message_id")


def notice_of(row: Row, state: NoticeState | None = None, message_id: str | None = None) -> StoredNotice:
    """Returns the notice of a row of `outbox`; with a state, as it is in that state and message."""
    id_, event_id, kind, *rest = row
    offset = 3
    if state is None:
        rest[_STATE - offset] = _STATES[rest[_STATE - offset]]
    else:
        rest[_STATE - offset], rest[_MESSAGE - offset] = state, message_id
    return StoredNotice(id_, event_id, _KINDS[kind], *rest)


def attempt_of(row: Row) -> Attempt:
    """Returns the attempt of a row of `attempt`."""
    return Attempt(*row)


ATTEMPT = ["at", "channel_id", "message_id", "events", "outcome", "status", "detail", "duration"]
_C = outbox.c
_EARLIER = outbox.alias("earlier")


def _mine(name: str = "channel") -> ColumnElement[bool]:
    return _C.channel_id == bindparam(name)


def _due(name: str = "now") -> ColumnElement[bool]:
    return _C.due_at <= bindparam(name, type_=Double)


def _at_most(statement: Select[Any], most: ColumnElement[int]) -> Select[Any]:
    # SQLite's dialect would make a parameter of the offset.
    return statement.limit(most).offset(literal_column("0"))


def _earlier(*holds: ColumnElement[bool]) -> ColumnElement[bool]:
    """Returns whether an earlier open notice of the same site and channel, outside of digests, holds a notice up."""
    e = _EARLIER.c
    same = (e.channel_id == _C.channel_id, e.site_id == _C.site_id, e.id < _C.id)
    return exists().where(*same, e.ended_at.is_(None), e.digest == NO_DIGEST, *holds)


class OutboxStatements:
    """The statements for one dialect, as text for `run`, with the order of their parameters."""

    def __init__(self, sql: Statements) -> None:
        self.id_list = sql.id_list
        most = bindparam("most", type_=BigInteger)
        urgent = select(_C.message_id).where(_mine("a"), IN_MESSAGE, IS_WAITING, _due("at_a"), _C.kind != FIRST_SEEN)
        again = select(_C.message_id).where(_mine("b"), IN_MESSAGE, IS_WAITING, _due("at_b"))
        digest = select(_C.digest).where(_mine("c"), FREE, _C.digest != NO_DIGEST, _due("at_c"))
        first = (_at_most(one.order_by(_C.due_at, _C.id), literal_column("1")) for one in (urgent, again, digest))
        given = [f"{at}{one}" for one in "abc" for at in ("", "at_")]
        self.first = sql.compiled(select(*(one.scalar_subquery() for one in first)), given)
        """Message that is to be tried again and does not tell of first sights alone, any message that is to be tried
        again, key of the digest that is due: channel and now, three times.
        """
        members = select(outbox).where(_mine(), IN_MESSAGE, _C.message_id == bindparam("message")).order_by(_C.id)
        self.members = sql.compiled(members, ["channel", "message"])
        of_digest = select(outbox).where(_mine(), FREE, _C.digest == bindparam("key"), _due()).order_by(_C.id)
        self.of_digest = sql.compiled(_at_most(of_digest, most), ["channel", "key", "now", "most"])
        e = _EARLIER.c
        later = e.due_at > bindparam("then", type_=Double)
        # Earlier ones that are free and due are in front in the same list, so that they are taken before or with it.
        others = _alone(_C.kind != FIRST_SEEN, e.message_id.is_not(None), and_(e.kind != FIRST_SEEN, later))
        self.others = sql.compiled(_at_most(others, most), ["channel", "now", "then", "most"])
        """What may go outside of digests but first sights, by id: channel, now, now, how many."""
        first_seen = _alone(_C.kind == FIRST_SEEN, e.message_id.is_not(None), later, e.kind != FIRST_SEEN)
        self.first_seen = sql.compiled(_at_most(first_seen, most), ["channel", "now", "then", "most"])
        """First sights that may go: as `others`."""
        of_sites = select(outbox).where(_mine(), FREE, _C.digest == NO_DIGEST, _C.kind == FIRST_SEEN)
        self.first_sights = sql.compiled(
            of_sites.where(sql.in_list(_C.site_id, "sites")).order_by(_C.id), ["channel", "sites"]
        )
        """Those of these sites that were never tried: they go with the first change."""
        note = update(outbox).ordered_values(
            (_C.state, literal_column(SENDING_TEXT)), (_C.message_id, bindparam("message", type_=Text))
        )
        self.note = sql.compiled(note.where(sql.in_list(_C.id, "ids")), ["message", "ids"])
        freeing = update(outbox).ordered_values(
            (_C.state, literal_column(f"'{WAITING}'")), (_C.message_id, literal_column("NULL"))
        )
        self.free = sql.compiled(freeing.where(sql.in_list(_C.id, "ids")), ["ids"])
        """Takes notices out of their message: their ids."""
        ending = update(outbox).ordered_values(
            (_C.state, bindparam("to", type_=Text)),
            (_C.attempts, _C.attempts + literal_column("1")),
            (_C.last_detail, bindparam("detail", type_=Text)),
            (_C.due_at, func.coalesce(bindparam("due", type_=Double), _C.due_at)),
            (_C.ended_at, bindparam("ended", type_=Double)),
        )
        mine = (IN_MESSAGE, IS_SENDING, _mine(), _C.message_id == bindparam("message"))
        self.end = sql.compiled(ending.where(*mine), ["to", "detail", "due", "ended", "channel", "message"])
        self.log = sql.insert_each(attempt, ATTEMPT)
        t = site_tag.c
        tags = select(t.site_id, t.tag).where(sql.in_list(t.site_id, "ids")).order_by(t.site_id, t.position, t.tag)
        a = attempt.c
        tells_more = exists().where(_C.message_id == a.message_id, _C.kind != FIRST_SEEN)
        recent = select(a.at, a.events, ~tells_more).where(
            a.channel_id == bindparam("channel"), a.at > bindparam("since", type_=Double)
        )
        sent = recent.where(a.outcome == literal_column(f"'{NoticeState.SENT}'")).order_by(a.id)
        self.sent_since = sql.compiled(sent, ["channel", "since"])
        """When messages were sent on a channel since then, of how many events, and whether of first sights alone."""
        self.tags = sql.compiled(tags, ["ids"])
        named = select(site.c.id, site.c.url, site.c.title).where(sql.in_list(site.c.id, "ids"))
        self.sites = sql.compiled(named, ["ids"])
        self.next_due = sql.compiled(next_due(), [])
        self.channels_named = len(_DUE_PARTS) if sql.is_sqlite else 1
        """How often `next_due_of` asks for its channel: PostgreSQL numbers its parameters."""
        self.next_due_of = sql.compiled(next_due(_mine()), ["channel"] * self.channels_named)
        of_channel = update(channel).ordered_values(
            (channel.c.last_sent_at, func.coalesce(bindparam("sent", type_=Double), channel.c.last_sent_at)),
            (channel.c.last_error, bindparam("error", type_=Text)),
        )
        self.of_channel = sql.compiled(
            of_channel.where(channel.c.id == bindparam("channel")), ["sent", "error", "channel"]
        )


def _alone(wanted: ColumnElement[bool], *holds: ColumnElement[bool]) -> Select[Any]:
    return (
        select(outbox)
        .where(_mine(), FREE, _C.digest == NO_DIGEST, wanted, _due(), ~_earlier(or_(*holds)))
        .order_by(_C.id)
    )


_DUE_PARTS: tuple[tuple[str, tuple[ColumnElement[bool], ...]], ...] = (
    (
        "others",
        (
            FREE,
            _C.digest == NO_DIGEST,
            _C.kind != FIRST_SEEN,
            ~_earlier(or_(_EARLIER.c.message_id.is_not(None), _EARLIER.c.kind != FIRST_SEEN)),
        ),
    ),
    ("first_seen", (FREE, _C.digest == NO_DIGEST, _C.kind == FIRST_SEEN, ~_earlier())),
    ("others", (FREE, _C.digest != NO_DIGEST)),
    ("again", (OF_CHANNELS, IS_WAITING)),
)
"""In parts, each with an index of its own: none has all open ones. Names are those of `DueTimes`."""


def next_due(*wanted: ColumnElement[bool]) -> Select[Any]:
    """Selects when each channel has something to send, by its kind: of each site only the first notice counts."""
    parts = (
        select(_C.channel_id, literal_column(f"'{name}'").label("name"), _C.due_at).where(*part, *wanted)
        for name, part in _DUE_PARTS
    )
    found = union_all(*parts).subquery().c
    return select(found.channel_id, found.name, func.min(found.due_at)).group_by(found.channel_id, found.name)


# Claims: the notices that a channel sends next as one message, noted before anything is sent.

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
    found = run(connection, sql.first_sights, channel_id, sql.id_list(last)) if last else ()
    before = [row for row in found if row[0] < last[row[SITE_ID]]]
    return before[:1] or rows if len(rows) == 1 else sorted([*before, *rows], key=lambda row: row[0])


def next_claim(connection: Connection, sql: OutboxStatements, channel_id: int | None) -> dict[int, DueTimes]:
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
    run(connection, sql.free, sql.id_list(one.id for one in rest))
    run(connection, sql.note, message_id, sql.id_list(one.id for one in kept))
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
    run(connection, sql.note, message_id, sql.id_list(row[0] for row in rows))
    sent = tuple(notice_of(row, NoticeState.SENDING, message_id) for row in rows)
    return ClaimedMessage(sent[0].channel_id, message_id, sent, sent[0].attempts, sent[0].digest)


# Ends of attempts: notices are sent, wait again, are dead, or are queued again by a user.

PIECE = 5_000
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
        wanted.append(sql.in_list(_C.id, "ids"))
        given["ids"] = sql.id_list(ids)
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
