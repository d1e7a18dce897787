"""Users in the database: each function works within a transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.storage.accounts.account_values import Role, User, UserPassword, check_name, name_key
from pollerd.storage.db.schema.accounts import user_account, user_session

_TABLE = user_account.c
COLUMNS = [_TABLE.id, _TABLE.name, _TABLE.role, _TABLE.created_at, _TABLE.password_hash.is_not(None).label("known")]


def user_of(row: Any) -> User:
    """Returns the user of a row of `COLUMNS`."""
    return User(row.id, row.name, Role(row.role), row.created_at, bool(row.known))


def list_users(connection: Connection) -> list[User]:
    """Returns all users by name."""
    return [user_of(row) for row in connection.execute(select(*COLUMNS).order_by(_TABLE.key))]


def find_user(connection: Connection, name: str) -> UserPassword | None:
    """Returns the user of this name, in any case; None: there is none."""
    wanted = select(*COLUMNS, _TABLE.password_hash).where(_TABLE.key == name_key(name))
    row = connection.execute(wanted).one_or_none()
    return None if row is None else UserPassword(user_of(row), row.password_hash)


def get_user(connection: Connection, name: str) -> User:
    """Returns the user of this name. Raises `NotFoundError`."""
    found = find_user(connection, name)
    if found is None:
        raise NotFoundError("user", name)
    return found.user


def _of_users(role: Role) -> Role:
    """Returns the role. Raises `InvalidValueError` for one that only tokens have."""
    if role is Role.SIGNALS:
        raise InvalidValueError("role", "read or write: only a token may be for signals", role.value)
    return role


def add_user(connection: Connection, name: str, role: Role, password_hash: str | None, now: float) -> User:
    """Adds a user. Raises `DuplicateError`, also where names differ in case only, and `InvalidValueError`."""
    name, role = check_name(name), _of_users(role)
    found = find_user(connection, name)
    if found is not None:
        raise DuplicateError("user", found.user.name, found.user.id)
    values = {
        "name": name,
        "key": name_key(name),
        "role": role.value,
        "password_hash": password_hash,
        "created_at": now,
    }
    user_id = connection.execute(insert(user_account).values(values).returning(_TABLE.id)).scalar_one()
    return User(user_id, name, role, now, password_hash is not None)


def change_user(connection: Connection, name: str, *, role: Role | None, password_hash: str | None) -> User:
    """Gives a user another role or password, if given; another password ends all sessions. Raises `NotFoundError`."""
    user = get_user(connection, name)
    values: dict[str, str] = {}
    if role is not None:
        values["role"] = _of_users(role).value
    if password_hash is not None:
        values["password_hash"] = password_hash
        connection.execute(delete(user_session).where(user_session.c.user_id == user.id))
    if values:
        connection.execute(update(user_account).where(_TABLE.id == user.id).values(values))
    return get_user(connection, name)


def rehash(connection: Connection, user_id: int, before: str, after: str) -> None:
    """Stores another hash of the same password, unless it was changed meanwhile."""
    unchanged = (_TABLE.id == user_id) & (_TABLE.password_hash == before)
    connection.execute(update(user_account).where(unchanged).values(password_hash=after))


def remove_user(connection: Connection, name: str) -> None:
    """Removes a user with all sessions. Raises `NotFoundError`."""
    user = get_user(connection, name)
    connection.execute(delete(user_session).where(user_session.c.user_id == user.id))
    connection.execute(delete(user_account).where(_TABLE.id == user.id))
