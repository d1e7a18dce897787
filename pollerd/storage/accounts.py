"""Users, sessions and API tokens in the database, and opening them without the rest of a daemon.

Times are epoch seconds, durations seconds; secrets are stored as hashes only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, and_, delete, exists, insert, or_, select, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.model import Role
from pollerd.shown import SHOWN, Moment, OneOf
from pollerd.storage import migrate
from pollerd.storage.encoding import storable_word
from pollerd.storage.engine import Database, check_place, database_url
from pollerd.storage.schema import api_token, user_account, user_session
from pollerd.storage.settings import StorageSettings
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.texts import N_, _

SESSION_IDLE_SECONDS = 12 * 3600.0
"""Time without a request after which a session ends."""
SESSION_MOST_SECONDS = 30 * 86_400.0
"""Time after which a session ends, however often it is used."""
_NAME = re.compile(r"[\w.@+-]{1,64}")
_NAME_ALLOWED = N_("1 to 64 letters, digits or . @ + - _")


@dataclass(frozen=True, slots=True)
class NamedUser:
    """A user."""

    __pydantic_config__ = SHOWN
    name: str
    role: Annotated[Role, OneOf("read", "write")]
    """read: read-only; write: full access."""
    created_at: Moment
    has_password: bool
    """false: only a trusted proxy signs the user in."""


@dataclass(frozen=True, slots=True)
class User(NamedUser):
    """A user as stored."""

    id: int


class UserPassword(Struct, frozen=True):
    """A user with the hash of the password; None: the user has none."""

    user: User
    hash: str | None


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token that was made while the daemon ran."""

    __pydantic_config__ = SHOWN
    id: int
    name: str
    role: Annotated[Role, OneOf("read", "write", "signals")]
    """read: may look; write: may do everything; signals: may report changed pages and reads, and nothing else."""
    created_at: Moment
    used_at: Moment | None
    """Noted at most every ten minutes."""


class Session(Struct, frozen=True):
    """A session: of a user, or of somebody who signed in with a token."""

    id: int
    user: User | None
    token_digest: bytes | None
    """SHA-256 of the token, if there is no user."""
    created_at: float
    seen_at: float
    agent: str
    """The browser, as it names itself."""
    address: str

    @property
    def expires_at(self) -> float:
        """When it ends if it is not used again."""
        return min(self.seen_at + SESSION_IDLE_SECONDS, self.created_at + SESSION_MOST_SECONDS)


class NewSession(Struct, frozen=True, kw_only=True):
    """What is stored of a session that begins. Exactly one of `user_id` and `token_digest` is given."""

    digest: bytes
    """SHA-256 of its secret."""
    user_id: int | None = None
    token_digest: bytes | None = None
    agent: str = ""
    address: str = ""


class Existing(Struct, frozen=True):
    """Whether there are accounts at all."""

    users: bool
    tokens: bool


def check_name(name: str, field: str = "name") -> str:
    """Returns a user's or token's name in its normal form. Raises `InvalidValueError`."""
    normal = unicodedata.normalize("NFC", name)
    if not _NAME.fullmatch(normal):
        raise InvalidValueError(field, _(_NAME_ALLOWED), name)
    return normal


def name_key(name: str) -> str:
    """Returns what names that differ in case or writing only have in common."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


# Users.

_USER = user_account.c
COLUMNS = [_USER.id, _USER.name, _USER.role, _USER.created_at, _USER.password_hash.is_not(None).label("known")]


def user_of(row: Any) -> User:
    """Returns the user of a row of `COLUMNS`."""
    return User(row.name, Role(row.role), row.created_at, bool(row.known), row.id)


def _of_users(role: Role) -> Role:
    """Returns the role. Raises `InvalidValueError` for one that only tokens have."""
    if role is Role.SIGNALS:
        raise InvalidValueError("role", _("read or write: only a token may be for signals"), role.value)
    return role


# Sessions.

MAX_SESSIONS = 100
"""Most sessions of one user or token: a further one ends the oldest."""
_SHOWN = 200
_SESSION = user_session.c
_OWN = ("token_digest", "created_at", "seen_at", "agent", "address")
_JOINED = select(
    _SESSION.id.label("session_id"), *(_SESSION[name].label(f"session_{name}") for name in _OWN), *COLUMNS
).select_from(user_session.outerjoin(user_account, _SESSION.user_id == user_account.c.id))


def _of_holder(user_id: int | None, token_digest: bytes | None) -> ColumnElement[bool]:
    if user_id is not None:
        return _SESSION.user_id == user_id
    return and_(_SESSION.user_id.is_(None), _SESSION.token_digest == token_digest)


def _over(now: float) -> ColumnElement[bool]:
    return or_(_SESSION.seen_at <= now - SESSION_IDLE_SECONDS, _SESSION.created_at <= now - SESSION_MOST_SECONDS)


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


# Tokens made while the daemon runs.

_TOKEN = api_token.c
_COLUMNS = [
    _TOKEN.id,
    _TOKEN.name,
    _TOKEN.role,
    _TOKEN.created_at,
    _TOKEN.used_at,
]


def _token(row: Row[Any]) -> StoredToken:
    return StoredToken(row.id, row.name, Role(row.role), row.created_at, row.used_at)


class AccountStore(Subject):
    """Users, sessions and tokens."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    @reads
    def existing(self, connection: Connection) -> Existing:
        """Returns whether there are users and tokens."""
        row = connection.execute(select(exists(select(user_account.c.id)), exists(select(api_token.c.id)))).one()
        return Existing(bool(row[0]), bool(row[1]))

    # Users.

    @reads
    def users(self, connection: Connection) -> list[User]:
        """Returns all users by name."""
        return [user_of(row) for row in connection.execute(select(*COLUMNS).order_by(_USER.key))]

    @reads
    def user(self, connection: Connection, name: str) -> UserPassword | None:
        """Returns the user of this name, in any case; None: there is none."""
        statement = select(*COLUMNS, _USER.password_hash).where(_USER.key == name_key(name))
        row = connection.execute(statement).one_or_none()
        return None if row is None else UserPassword(user_of(row), row.password_hash)

    @writes
    def add_user(self, connection: Connection, name: str, role: Role, password_hash: str | None, now: float) -> User:
        """Adds a user; without a password the proxy in front signs the user in.

        Raises `DuplicateError`, also where names differ in case only, and `InvalidValueError`.
        """
        name, role = check_name(name), _of_users(role)
        account = self.user.within(connection, name)
        if account is not None:
            raise DuplicateError(N_("user"), account.user.name, account.user.id)
        values = {
            "name": name,
            "key": name_key(name),
            "role": role.value,
            "password_hash": password_hash,
            "created_at": now,
        }
        user_id = connection.execute(insert(user_account).values(values).returning(_USER.id)).scalar_one()
        return User(name, role, now, password_hash is not None, user_id)

    @writes
    def add_first_user(self, connection: Connection, name: str, password_hash: str, now: float) -> User:
        """Adds a user who may do everything, if there is none yet. Raises `DuplicateError`, `InvalidValueError`."""
        users = self.users.within(connection)
        if users:
            raise DuplicateError(N_("user"), users[0].name, users[0].id)
        return self.add_user.within(connection, name, Role.WRITE, password_hash, now)

    @writes
    def change_user(
        self, connection: Connection, name: str, *, role: Role | None = None, password_hash: str | None = None
    ) -> User:
        """Gives a user another role or password, if given; another password ends all sessions.

        Raises `NotFoundError`.
        """
        user = self._named(connection, name)
        values: dict[str, str] = {}
        if role is not None:
            values["role"] = _of_users(role).value
        if password_hash is not None:
            values["password_hash"] = password_hash
            connection.execute(delete(user_session).where(user_session.c.user_id == user.id))
        if values:
            connection.execute(update(user_account).where(_USER.id == user.id).values(values))
        return self._named(connection, name)

    @writes
    def rehash(self, connection: Connection, user_id: int, before: str, after: str) -> None:
        """Stores another hash of the same password, unless it was changed meanwhile."""
        unchanged = (_USER.id == user_id) & (_USER.password_hash == before)
        connection.execute(update(user_account).where(unchanged).values(password_hash=after))

    @writes
    def remove_user(self, connection: Connection, name: str) -> None:
        """Removes a user with all sessions. Raises `NotFoundError`."""
        user = self._named(connection, name)
        connection.execute(delete(user_session).where(user_session.c.user_id == user.id))
        connection.execute(delete(user_account).where(_USER.id == user.id))

    def _named(self, connection: Connection, name: str) -> User:
        account = self.user.within(connection, name)
        if account is None:
            raise NotFoundError(N_("user"), name)
        return account.user

    # Sessions.

    @writes
    def begin_session(self, connection: Connection, new: NewSession, now: float) -> Session:
        """Stores a session, and deletes those that are over."""
        connection.execute(delete(user_session).where(_over(now)))
        holder = _of_holder(new.user_id, new.token_digest)
        older = select(_SESSION.id).where(holder).order_by(_SESSION.id.desc()).offset(MAX_SESSIONS - 1)
        for session_id in connection.execute(older).scalars().all():
            connection.execute(delete(user_session).where(_SESSION.id == session_id))
        values = {
            "digest": new.digest,
            "user_id": new.user_id,
            "token_digest": new.token_digest,
            "created_at": now,
            "seen_at": now,
            "agent": storable_word(new.agent[:_SHOWN]),
            "address": storable_word(new.address[:_SHOWN]),
        }
        made = connection.execute(insert(user_session).values(values).returning(_SESSION.id)).scalar_one()
        return _session(connection.execute(_JOINED.where(_SESSION.id == made)).one())

    @reads
    def session(self, connection: Connection, digest: bytes, now: float) -> Session | None:
        """Returns the session whose secret has this SHA-256; None: it is unknown or over."""
        row = connection.execute(_JOINED.where(_SESSION.digest == digest, ~_over(now))).one_or_none()
        return None if row is None else _session(row)

    @reads
    def sessions(self, connection: Connection, now: float) -> list[Session]:
        """Returns all sessions that are not over, those that were used last first."""
        rows = connection.execute(_JOINED.where(~_over(now)).order_by(_SESSION.seen_at.desc(), _SESSION.id.desc()))
        return [_session(row) for row in rows]

    @writes
    def note_seen(self, connection: Connection, session_id: int, now: float) -> None:
        """Notes that a session was used."""
        used = (_SESSION.id == session_id) & (_SESSION.seen_at < now)
        connection.execute(update(user_session).where(used).values(seen_at=now))

    @writes
    def end_session(self, connection: Connection, session_id: int) -> None:
        """Ends a session. Raises `NotFoundError`."""
        if not connection.execute(delete(user_session).where(_SESSION.id == session_id)).rowcount:
            raise NotFoundError(N_("session"), session_id)

    @writes
    def end_sessions(self, connection: Connection) -> int:
        """Ends all sessions; returns how many."""
        return connection.execute(delete(user_session)).rowcount

    @writes
    def end_sessions_of(
        self, connection: Connection, *, user_id: int | None = None, token_digest: bytes | None = None
    ) -> int:
        """Ends all sessions of a user, or of a token; returns how many."""
        return connection.execute(delete(user_session).where(_of_holder(user_id, token_digest))).rowcount

    # Tokens.

    @reads
    def tokens(self, connection: Connection) -> list[StoredToken]:
        """Returns all tokens by name."""
        return [_token(row) for row in connection.execute(select(*_COLUMNS).order_by(_TOKEN.key))]

    @reads
    def token(self, connection: Connection, digest: bytes) -> StoredToken | None:
        """Returns the token with this SHA-256; None: there is none."""
        row = connection.execute(select(*_COLUMNS).where(_TOKEN.digest == digest)).one_or_none()
        return None if row is None else _token(row)

    @writes
    def add_token(self, connection: Connection, name: str, role: Role, digest: bytes, now: float) -> StoredToken:
        """Adds a token, of which its SHA-256 is kept. Raises `DuplicateError`, `InvalidValueError`."""
        name = check_name(name)
        row = connection.execute(select(_TOKEN.id, _TOKEN.name).where(_TOKEN.key == name_key(name))).one_or_none()
        if row is not None:
            raise DuplicateError(N_("token"), row.name, row.id)
        values = {"name": name, "key": name_key(name), "role": role.value, "digest": digest, "created_at": now}
        token_id = connection.execute(insert(api_token).values(values).returning(_TOKEN.id)).scalar_one()
        return StoredToken(token_id, name, role, now, None)

    @writes
    def withdraw_token(self, connection: Connection, token_id: int) -> None:
        """Withdraws a token, with the sessions that it began. Raises `NotFoundError`."""
        digest = connection.execute(select(_TOKEN.digest).where(_TOKEN.id == token_id)).scalar_one_or_none()
        if digest is None:
            raise NotFoundError(N_("token"), token_id)
        self.end_sessions_of.within(connection, token_digest=digest)
        connection.execute(delete(api_token).where(_TOKEN.id == token_id))

    @writes
    def note_used(self, connection: Connection, token_id: int, now: float) -> None:
        """Notes that a token was used."""
        connection.execute(update(api_token).where(_TOKEN.id == token_id).values(used_at=now))


# Opening of the accounts alone, for commands: next to a running daemon, or before its first start.


@asynccontextmanager
async def open_accounts(url: str, settings: StorageSettings) -> AsyncIterator[AccountStore]:
    """Yields the accounts of the database at `url`; creates a missing SQLite file, and brings the schema up.

    Needs no key: accounts are hashed, not encrypted. Raises `DatabaseInUseError` if the schema must be brought up while
    a daemon runs, and the errors of `Store.open`.
    """
    check_place(url)
    await migrate.upgrade(url, settings)
    database = Database(database_url(url), settings, create=False)
    try:
        yield AccountStore(database=database)
    finally:
        await database.close()
