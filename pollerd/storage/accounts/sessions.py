"""Sessions in the database: each function works within a transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, insert, or_, select, update

from pollerd.errors import NotFoundError
from pollerd.storage.accounts.account_values import (
    SESSION_IDLE_SECONDS,
    SESSION_MOST_SECONDS,
    NewSession,
    Session,
)
from pollerd.storage.accounts.users import COLUMNS, user_of
from pollerd.storage.db.schema.accounts import user_account, user_session
from pollerd.storage.encoding.text_encoding import storable_word

MOST_SESSIONS = 100
"""Most sessions of one user or token: a further one ends the oldest."""
_SHOWN = 200
_TABLE = user_session.c
_OWN = ("token_digest", "created_at", "seen_at", "agent", "address")
_JOINED = select(
    _TABLE.id.label("session_id"), *(_TABLE[name].label(f"session_{name}") for name in _OWN), *COLUMNS
).select_from(user_session.outerjoin(user_account, _TABLE.user_id == user_account.c.id))


def begin_session(connection: Connection, new: NewSession, now: float) -> Session:
    """Stores a session, and deletes those that are over."""
    connection.execute(delete(user_session).where(_over(now)))
    holder = _of_holder(new.user_id, new.token_digest)
    older = select(_TABLE.id).where(holder).order_by(_TABLE.id.desc()).offset(MOST_SESSIONS - 1)
    for one in connection.execute(older).scalars().all():
        connection.execute(delete(user_session).where(_TABLE.id == one))
    values = {
        "digest": new.digest,
        "user_id": new.user_id,
        "token_digest": new.token_digest,
        "created_at": now,
        "seen_at": now,
        "agent": storable_word(new.agent[:_SHOWN]),
        "address": storable_word(new.address[:_SHOWN]),
    }
    made = connection.execute(insert(user_session).values(values).returning(_TABLE.id)).scalar_one()
    return _session(connection.execute(_JOINED.where(_TABLE.id == made)).one())


def find_session(connection: Connection, digest: bytes, now: float) -> Session | None:
    """Returns the session whose secret has this SHA-256; None: it is unknown or over."""
    row = connection.execute(_JOINED.where(_TABLE.digest == digest, ~_over(now))).one_or_none()
    return None if row is None else _session(row)


def list_sessions(connection: Connection, now: float) -> list[Session]:
    """Returns all sessions that are not over, those that were used last first."""
    rows = connection.execute(_JOINED.where(~_over(now)).order_by(_TABLE.seen_at.desc(), _TABLE.id.desc()))
    return [_session(row) for row in rows]


def note_seen(connection: Connection, session_id: int, now: float) -> None:
    """Notes that a session was used."""
    used = (_TABLE.id == session_id) & (_TABLE.seen_at < now)
    connection.execute(update(user_session).where(used).values(seen_at=now))


def end_session(connection: Connection, session_id: int) -> None:
    """Ends a session. Raises `NotFoundError`."""
    if not connection.execute(delete(user_session).where(_TABLE.id == session_id)).rowcount:
        raise NotFoundError("session", session_id)


def end_sessions(connection: Connection) -> int:
    """Ends all sessions; returns how many."""
    return connection.execute(delete(user_session)).rowcount


def end_sessions_of(connection: Connection, user_id: int | None, token_digest: bytes | None) -> int:
    """Ends all sessions of a user, or of a token; returns how many."""
    return connection.execute(delete(user_session).where(_of_holder(user_id, token_digest))).rowcount


def _of_holder(user_id: int | None, token_digest: bytes | None) -> ColumnElement[bool]:
    if user_id is not None:
        return _TABLE.user_id == user_id
    return and_(_TABLE.user_id.is_(None), _TABLE.token_digest == token_digest)


def _over(now: float) -> ColumnElement[bool]:
    return or_(_TABLE.seen_at <= now - SESSION_IDLE_SECONDS, _TABLE.created_at <= now - SESSION_MOST_SECONDS)


def _session(row: Row[Any]) -> Session:
    return Session(
        row.session_id,
        None if row.id is None else user_of(row),
        row.session_token_digest,
        row.session_created_at,
        row.session_seen_at,
        row.session_agent,
        row.session_address,
    )
