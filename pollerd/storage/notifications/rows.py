"""Notices and attempts as rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, literal_column

from pollerd.events import EventKind, NoticeState
from pollerd.storage.db.schema import attempt, outbox
from pollerd.storage.notifications.notification_values import Attempt, StoredNotice

WAITING, SENDING, DEAD = NoticeState.WAITING.value, NoticeState.SENDING.value, NoticeState.DEAD.value

# The conditions of the partial indexes: written out, since a database does not look into parameters to choose an index.
NO_DIGEST: ColumnElement[str] = literal_column("''")
OPEN: ColumnElement[bool] = outbox.c.ended_at.is_(None)
FREE: ColumnElement[bool] = and_(OPEN, outbox.c.message_id.is_(None))
IN_MESSAGE: ColumnElement[bool] = and_(OPEN, outbox.c.message_id.is_not(None))
IS_DEAD: ColumnElement[bool] = outbox.c.state == literal_column(f"'{DEAD}'")


def notice_of(row: Any) -> StoredNotice:
    """Returns the notice of a row of `outbox`."""
    values = dict(zip(_NAMES, row, strict=True))
    return StoredNotice(**{**values, "kind": EventKind(values["kind"]), "state": NoticeState(values["state"])})


def attempt_of(row: Any) -> Attempt:
    """Returns the attempt of a row of `attempt`."""
    return Attempt(**dict(zip(attempt.c.keys(), row, strict=True)))


_NAMES = outbox.c.keys()
