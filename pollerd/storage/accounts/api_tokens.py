"""Tokens made while the daemon runs: each function works within a transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from pollerd.errors import DuplicateError, NotFoundError
from pollerd.storage.accounts.account_values import Role, StoredToken, check_name, name_key
from pollerd.storage.accounts.sessions import end_sessions_of
from pollerd.storage.db.schema.accounts import api_token

_TABLE = api_token.c
_COLUMNS = [_TABLE.id, _TABLE.name, _TABLE.role, _TABLE.created_at, _TABLE.used_at]


def list_tokens(connection: Connection) -> list[StoredToken]:
    """Returns all tokens by name."""
    return [_token(row) for row in connection.execute(select(*_COLUMNS).order_by(_TABLE.key))]


def find_token(connection: Connection, digest: bytes) -> StoredToken | None:
    """Returns the token with this SHA-256; None: there is none."""
    row = connection.execute(select(*_COLUMNS).where(_TABLE.digest == digest)).one_or_none()
    return None if row is None else _token(row)


def add_token(connection: Connection, name: str, role: Role, digest: bytes, now: float) -> StoredToken:
    """Adds a token. Raises `DuplicateError` for a name that another has, and `InvalidValueError`."""
    name = check_name(name)
    found = connection.execute(select(_TABLE.id, _TABLE.name).where(_TABLE.key == name_key(name))).one_or_none()
    if found is not None:
        raise DuplicateError("token", found.name, found.id)
    values = {"name": name, "key": name_key(name), "role": role.value, "digest": digest, "created_at": now}
    token_id = connection.execute(insert(api_token).values(values).returning(_TABLE.id)).scalar_one()
    return StoredToken(token_id, name, role, now, None)


def withdraw_token(connection: Connection, token_id: int) -> None:
    """Withdraws a token, with the sessions that it began. Raises `NotFoundError`."""
    digest = connection.execute(select(_TABLE.digest).where(_TABLE.id == token_id)).scalar_one_or_none()
    if digest is None:
        raise NotFoundError("token", token_id)
    end_sessions_of(connection, None, digest)
    connection.execute(delete(api_token).where(_TABLE.id == token_id))


def note_used(connection: Connection, token_id: int, now: float) -> None:
    """Notes that a token was used."""
    connection.execute(update(api_token).where(_TABLE.id == token_id).values(used_at=now))


def _token(row: Row[Any]) -> StoredToken:
    return StoredToken(row.id, row.name, Role(row.role), row.created_at, row.used_at)
