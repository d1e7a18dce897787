"""Accounts in the database: each method is one transaction."""

from __future__ import annotations

from sqlalchemy import Connection, exists, select

from pollerd.errors import DuplicateError
from pollerd.storage.accounts import api_tokens, sessions, users
from pollerd.storage.accounts.account_values import (
    Existing,
    NewSession,
    Role,
    Session,
    StoredToken,
    User,
    UserPassword,
)
from pollerd.storage.db.engine import Database
from pollerd.storage.db.schema.accounts import api_token, user_account


class AccountStore:
    """Users, sessions and tokens.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def existing(self) -> Existing:
        """Returns whether there are users and tokens."""
        return await self._database.read(_existing)

    # Users.

    async def users(self) -> list[User]:
        """Returns all users by name."""
        return await self._database.read(users.list_users)

    async def user(self, name: str) -> UserPassword | None:
        """Returns the user of this name, in any case; None: there is none."""
        return await self._database.read(lambda c: users.find_user(c, name))

    async def add_user(self, name: str, role: Role, password_hash: str | None, now: float) -> User:
        """Adds a user; without a password the proxy in front signs the user in.

        Raises `DuplicateError`, also where names differ in case only, and `InvalidValueError`.
        """
        return await self._database.write(lambda c: users.add_user(c, name, role, password_hash, now))

    async def add_first_user(self, name: str, password_hash: str, now: float) -> User:
        """Adds a user who may do everything, if there is none yet. Raises `DuplicateError`, `InvalidValueError`."""

        def work(connection: Connection) -> User:
            there = users.list_users(connection)
            if there:
                raise DuplicateError("user", there[0].name, there[0].id)
            return users.add_user(connection, name, Role.WRITE, password_hash, now)

        return await self._database.write(work)

    async def change_user(self, name: str, *, role: Role | None = None, password_hash: str | None = None) -> User:
        """Gives a user another role or password, if given; another password ends all sessions.

        Raises `NotFoundError`.
        """
        return await self._database.write(lambda c: users.change_user(c, name, role=role, password_hash=password_hash))

    async def rehash(self, user_id: int, before: str, after: str) -> None:
        """Stores another hash of the same password, unless it was changed meanwhile."""
        await self._database.write(lambda c: users.rehash(c, user_id, before, after))

    async def remove_user(self, name: str) -> None:
        """Removes a user with all sessions. Raises `NotFoundError`."""
        await self._database.write(lambda c: users.remove_user(c, name))

    # Sessions.

    async def begin_session(self, new: NewSession, now: float) -> Session:
        """Stores a session, and deletes those that are over."""
        return await self._database.write(lambda c: sessions.begin_session(c, new, now))

    async def session(self, digest: bytes, now: float) -> Session | None:
        """Returns the session whose secret has this SHA-256; None: it is unknown or over."""
        return await self._database.read(lambda c: sessions.find_session(c, digest, now))

    async def sessions(self, now: float) -> list[Session]:
        """Returns all sessions that are not over, those that were used last first."""
        return await self._database.read(lambda c: sessions.list_sessions(c, now))

    async def note_seen(self, session_id: int, now: float) -> None:
        """Notes that a session was used."""
        await self._database.write(lambda c: sessions.note_seen(c, session_id, now))

    async def end_session(self, session_id: int) -> None:
        """Ends a session. Raises `NotFoundError`."""
        await self._database.write(lambda c: sessions.end_session(c, session_id))

    async def end_sessions(self) -> int:
        """Ends all sessions; returns how many."""
        return await self._database.write(sessions.end_sessions)

    async def end_sessions_of(self, *, user_id: int | None = None, token_digest: bytes | None = None) -> int:
        """Ends all sessions of a user, or of a token; returns how many."""
        return await self._database.write(lambda c: sessions.end_sessions_of(c, user_id, token_digest))

    # Tokens.

    async def tokens(self) -> list[StoredToken]:
        """Returns all tokens by name."""
        return await self._database.read(api_tokens.list_tokens)

    async def token(self, digest: bytes) -> StoredToken | None:
        """Returns the token with this SHA-256; None: there is none."""
        return await self._database.read(lambda c: api_tokens.find_token(c, digest))

    async def add_token(self, name: str, role: Role, digest: bytes, now: float) -> StoredToken:
        """Adds a token, of which its SHA-256 is kept. Raises `DuplicateError`, `InvalidValueError`."""
        return await self._database.write(lambda c: api_tokens.add_token(c, name, role, digest, now))

    async def withdraw_token(self, token_id: int) -> None:
        """Withdraws a token, with the sessions that it began. Raises `NotFoundError`."""
        await self._database.write(lambda c: api_tokens.withdraw_token(c, token_id))

    async def note_used(self, token_id: int, now: float) -> None:
        """Notes that a token was used."""
        await self._database.write(lambda c: api_tokens.note_used(c, token_id, now))


def _existing(connection: Connection) -> Existing:
    row = connection.execute(select(exists(select(user_account.c.id)), exists(select(api_token.c.id)))).one()
    return Existing(bool(row[0]), bool(row[1]))
