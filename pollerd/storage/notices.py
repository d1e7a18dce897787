"""Notices and attempts as rows, and the statements of the outbox, compiled once: for each message a few of them run."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
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

from pollerd.events import EventKind, Notice, NoticeState
from pollerd.storage.encoding import storable, storable_word
from pollerd.storage.notification_values import Attempt, StoredNotice
from pollerd.storage.schema import attempt, channel, outbox, site, site_tag, site_text
from pollerd.storage.statements import Statements

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


def notice_row(notice: Notice, url: str | None = None, change_id: int | None = None) -> tuple[Any, ...]:
    """Returns the row of a notice, in the order of `NOTICE`."""
    due_at = notice.due_at
    return (
        notice.event_id,
        notice.kind.value,
        notice.at,
        notice.rule_id,
        notice.channel_id,
        notice.site_id,
        storable(url),
        change_id,
        notice.selection,
        storable_word(notice.data),
        notice.digest,
        due_at,
        due_at,
    )


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
        first = (_at_most(query.order_by(_C.due_at, _C.id), literal_column("1")) for query in (urgent, again, digest))
        labels = [f"{at}{letter}" for letter in "abc" for at in ("", "at_")]
        self.first = sql.compiled(select(*(query.scalar_subquery() for query in first)), labels)
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
        title = func.coalesce(site.c.title, site_text.c.page_title)
        named = select(site.c.id, site.c.url, title).join_from(site, site_text, isouter=True)
        named = named.where(sql.in_list(site.c.id, "ids"))
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


def _alone(condition: ColumnElement[bool], *holds: ColumnElement[bool]) -> Select[Any]:
    return (
        select(outbox)
        .where(_mine(), FREE, _C.digest == NO_DIGEST, condition, _due(), ~_earlier(or_(*holds)))
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


def next_due(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Selects when each channel has something to send, by its kind: of each site only the first notice counts."""
    parts = (
        select(_C.channel_id, literal_column(f"'{name}'").label("name"), _C.due_at).where(*part, *conditions)
        for name, part in _DUE_PARTS
    )
    due = union_all(*parts).subquery().c
    return select(due.channel_id, due.name, func.min(due.due_at)).group_by(due.channel_id, due.name)
