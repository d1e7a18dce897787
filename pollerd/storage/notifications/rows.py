"""Notices and attempts as rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, literal_column, select

from pollerd.events import EventKind, NoticeState
from pollerd.storage.db.schema.notifications import channel, outbox
from pollerd.storage.notifications.notification_values import Attempt, StoredNotice

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
