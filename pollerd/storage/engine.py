"""Databases opened by URL: engine, transactions, our exceptions for their errors, and the check of a replaced file."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, Row, Select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from pollerd.errors import ConfigError, DatabaseUnavailableError, InvalidValueError, SchemaError, file_fault
from pollerd.storage.locks import FileLock
from pollerd.storage.settings import StorageSettings
from pollerd.texts import N_, _

if TYPE_CHECKING:
    from pollerd.storage.postgres import PostgresDatabase
    from pollerd.storage.session_lock import SessionLock
    from pollerd.storage.sqlite import SqliteDatabase


# Database errors, mapped to ours. Two short tables name those that are our own faults; all others are retried.
#
# A server or its operator may end a connection, refuse the next one, run out of space, fail over or become read-only.
# The daemon waits for these to pass. The errors named here do not pass: our statement is wrong, or its values are, and
# the same statement would always be refused.

# SQLSTATE, by class or in full; the full code wins. https://www.postgresql.org/docs/current/errcodes-appendix.html
POSTGRES_OURS = frozenset(
    {
        "21",  # cardinality violation: an upsert hits a row twice
        "22",  # data exception: a value that its column does not accept
        "23",  # integrity constraint violation
        "25001",  # a transaction inside a transaction
        "25P01",  # no transaction where one is required
        "25P02",  # a statement after a failed one
        "42",  # syntax error, undefined column, wrong type
        "54",  # program limit exceeded: a row too long for its index
    }
)
POSTGRES_PASSING = frozenset(
    {
        "42501",  # insufficient privilege: CONNECT or more was revoked
        "42P01",  # undefined table: a restore in progress, another search_path
        "42P05",  # prepared statement exists already: a pooler changed the session
    }
)
# Primary result codes. https://sqlite.org/rescode.html
SQLITE_OURS = frozenset(
    {
        sqlite3.SQLITE_ERROR,  # syntax error, no such column
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
    }
)
SQLITE_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# The errors of PostgreSQL's driver that are handled; a driver that is not loaded raised none.
_REFUSED = ("PostgresError",)
_CUT = (
    "InterfaceError",
    "InternalClientError",  # the server is not PostgreSQL, or sent an unsolicited message, as when it shuts down
)

_CONNECTION_CLASS = "08"
"""SQLSTATEs of connections that ended: the driver says them itself."""
_OF_POOLER = "unsupported startup parameter"
"""What PgBouncer says of settings that it does not hand on; PostgreSQL itself never does."""
_BEHIND_POOLER = N_(
    "database: must be reached without a connection pooler, or through one in session mode whose"
    " ignore_startup_parameters names the settings that pollerd gives its sessions; the one between says: {}"
)


@contextmanager
def mapped() -> Iterator[None]:
    """Raises `DatabaseUnavailableError` for recoverable database errors, `SchemaError` for a damaged file.

    Raises `ConfigError` for a connection pooler that refuses what pollerd asks of a session. The cause is kept. Our own
    faults pass unchanged.
    """
    try:
        yield
    except _refusals() as error:
        cause = _cause(error)
        if _OF_POOLER in str(cause):
            raise ConfigError(_(_BEHIND_POOLER).format(_one_line(cause))) from error
        if _is_damage(cause):
            raise SchemaError(_one_line(cause)) from error
        if _is_ours(cause) and not getattr(error, "connection_invalidated", False):
            raise
        raise DatabaseUnavailableError(_one_line(cause)) from error
    except _failures() as error:
        raise DatabaseUnavailableError(_one_line(error)) from error


def _of_driver(names: tuple[str, ...]) -> tuple[type[Exception], ...]:
    driver = sys.modules.get("asyncpg")
    return () if driver is None else tuple(getattr(driver, name) for name in names)


def _connection() -> tuple[type[Exception], ...]:
    """Returns the errors of a failed connection; TLS errors and timeouts are also `OSError`."""
    return (OSError, *_of_driver(_CUT))


def _refusals() -> tuple[type[Exception], ...]:
    return (DBAPIError, sqlite3.Error, *_of_driver(_REFUSED))


def _failures() -> tuple[type[Exception], ...]:
    return (*_connection(), PoolTimeoutError, PendingRollbackError)


def is_ours(sqlstate: str) -> bool:
    """Returns whether PostgreSQL's error of this code is our own fault, which waiting does not cure."""
    return sqlstate not in POSTGRES_PASSING and not POSTGRES_OURS.isdisjoint({sqlstate, sqlstate[:2]})


def _cause(error: BaseException) -> BaseException:
    """Returns the driver's error behind SQLAlchemy's."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    behind = cause.__cause__
    return behind if isinstance(behind, _connection() + _of_driver(_REFUSED)) else cause


def _is_ours(cause: BaseException) -> bool:
    if isinstance(cause, _of_driver(_REFUSED)):
        return is_ours(getattr(cause, "sqlstate", None) or "")
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return code is None or (code & 0xFF) in SQLITE_OURS
    return not isinstance(cause, _connection())


def _is_damage(cause: BaseException) -> bool:
    code = getattr(cause, "sqlite_errorcode", None)
    return code is not None and (code & 0xFF) in SQLITE_DAMAGED


def _one_line(error: BaseException) -> str:
    """Returns what a user is shown: what the server says, or a sentence; not how a driver or a pool words it."""
    code = getattr(error, "sqlstate", None) or ""
    if isinstance(error, _of_driver(_CUT)) or code.startswith(_CONNECTION_CLASS):
        return _("the connection to the database was lost")
    if isinstance(error, PoolTimeoutError):
        return _("no connection to the database was free in time")
    if isinstance(error, PendingRollbackError):
        return _("a transaction was broken off by the database")
    if isinstance(error, OSError):
        return _not_reached(error)
    words = str(error).split("\n", 1)[0].strip() or type(error).__name__
    return f"{words} (SQLSTATE {code})" if code else words


def _not_reached(error: OSError) -> str:
    """Returns why there is no connection, without the address, which `/readyz` would show to strangers."""
    if isinstance(error, TimeoutError):
        return _("the database does not answer in time")
    if isinstance(error, ssl.SSLError):
        why = getattr(error, "verify_message", "") or _("TLS failed")
    elif isinstance(error, socket.gaierror):
        why = error.strerror or ""
    elif error.errno:
        why = os.strerror(error.errno)
    else:
        why = _("the server refuses TLS (SSL)") if "SSL" in str(error) else ""
    return _("the database cannot be reached{colon}{why}", colon=": " if why else "", why=why)


T = TypeVar("T")
P = ParamSpec("P")

_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+aiosqlite": "sqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}
_ALLOWED = N_("sqlite:///path or postgresql://user@host/name")
_CLOSE_SECONDS = 5.0


def database_url(text: str) -> URL:
    """Returns the URL with its driver. Accepts plain `sqlite:`, `postgresql:` and `postgres:`.

    Raises `InvalidValueError` for anything else.
    """
    try:
        url = make_url(text)
    except ArgumentError as error:
        # The URL may contain a password: only its scheme is shown.
        raise InvalidValueError("database", _(_ALLOWED), text.split(":", 1)[0]) from error
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise InvalidValueError("database", _(_ALLOWED), url.drivername)
    return url.set(drivername=driver)


def sqlite_path(url: URL) -> Path | None:
    """Returns the file of an SQLite URL; None in memory and for PostgreSQL."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database)).absolute()


def check_place(text: str) -> None:
    """Raises `ConfigError` if the URL names an impossible SQLite file: in a missing folder, or a folder itself.

    Waiting does not help with such a typo. Raises `InvalidValueError` as `database_url` does.
    """
    path = sqlite_path(database_url(text))
    if path is not None and not path.parent.is_dir():
        raise ConfigError(_("database {path}: there is no folder {parent}", path=path, parent=path.parent))
    if path is not None and path.is_dir():
        raise ConfigError(_("database {path}: is a folder", path=path))


class Database:
    """An open database. Writers queue here, so that they never wait for each other inside SQLite."""

    def __init__(
        self,
        url: URL,
        settings: StorageSettings,
        *,
        create: bool,
        exclusive: bool = False,
        session: SessionLock | None = None,
    ) -> None:
        """exclusive: only the holder of the daemon's lock writes (see `lock`). session: PostgreSQL's, if not the usual.

        Raises `DatabaseUnavailableError` if an SQLite file is missing and `create` is false, or unusable, and
        `InvalidValueError` for a URL with options unknown to the driver.
        """
        self.url = url
        self.path = sqlite_path(url)
        if self.path is not None:
            _require_file(self.path, create)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self._in_memory = self.is_sqlite and self.path is None
        self._identity = self._look_at_file()
        self._write_lock = asyncio.Lock()
        self._server: PostgresDatabase | None = None
        self._driver: SqliteDatabase | PostgresDatabase
        if self.is_sqlite:
            self._driver = _sqlite(url, self.path, settings)
        else:
            self._driver = self._server = _postgres(url, settings, exclusive, session)
        self._lock: FileLock | None = None

    @property
    def engine(self) -> Engine:
        """The engine, for its dialect and for listeners of statements."""
        return self._driver.engine

    async def lock(self) -> None:
        """Takes the daemon's lock until `close`; a database in memory needs none. May be called twice.

        Raises `DatabaseInUseError` if another process holds it, `DatabaseUnavailableError`.
        """
        if self.path is not None:
            self._lock = self._lock or FileLock(self.path.with_name(self.path.name + ".lock"))
        elif self._server is not None:
            with mapped():
                await self._server.lock()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of `work` with a connection. Raises `DatabaseUnavailableError`.

        On SQLite it runs in a thread, concurrently with the loop, as writes do: see `in_loop`.
        """
        if self._in_memory:
            # All share one connection: a reader would see a writer's unfinished transaction.
            async with self._write_lock:
                return await self._read(work)
        return await self._read(work)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        with mapped():
            return await self._driver.read(work)

    async def stream(self, statement: Select[Any], piece: int) -> AsyncIterator[Sequence[Row[Any]]]:
        """Yields the statement's rows, `piece` at a time, without loading all. Raises `DatabaseUnavailableError`."""
        with mapped():
            async for rows in self._driver.stream(statement, piece):
                yield rows

    @asynccontextmanager
    async def listening(
        self, channel: str, on_message: Callable[[str], None], lost: Callable[[], None]
    ) -> AsyncIterator[Callable[[Callable[[Connection], T]], Awaitable[T]]]:
        """Calls `on_message` with each one on a channel of NOTIFY while the block runs, `lost` when no more can come.

        PostgreSQL only. The block reads with the function that it is given, on the connection that listens. Raises
        `DatabaseUnavailableError`.
        """
        assert self._server is not None
        with mapped():
            async with self._server.listening(channel, on_message, lost) as read:
                yield read

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of `work` after committing its transaction. If cancelled, commits all of it or nothing.

        Raises `DatabaseUnavailableError`, and `DatabaseInUseError` if another daemon took the lock.
        """
        async with self._write_lock:
            self.verify_file()
            with mapped():
                return await self._driver.write(work)

    def in_loop(self, call: Callable[P, T]) -> Callable[P, T]:
        """Wraps a function of the loop's objects for use in a transaction: it runs in the loop's thread."""
        return self._driver.in_loop(call)

    def verify_file(self) -> None:
        """Raises `DatabaseUnavailableError` if the SQLite file vanished or was replaced."""
        if self._look_at_file() != self._identity:
            raise DatabaseUnavailableError(_("{path}: was replaced by another file", path=self.path))

    def _look_at_file(self) -> tuple[int, int] | None:
        if self.path is None:
            return None
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise DatabaseUnavailableError(file_fault(self.path, error)) from error
        return status.st_dev, status.st_ino

    async def close(self) -> None:
        """Closes every connection, then releases the lock. May be called twice; does not wait for a dead server."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._driver.close()
        if self._lock is not None:
            self._lock.release()


# Each driver is imported where it is used: PostgreSQL's takes megabytes that users of SQLite do not need.


def _sqlite(url: URL, path: Path | None, settings: StorageSettings) -> SqliteDatabase:
    from pollerd.storage.sqlite import SqliteDatabase

    return SqliteDatabase(url, path, settings)


def _postgres(url: URL, settings: StorageSettings, exclusive: bool, session: SessionLock | None) -> PostgresDatabase:
    from pollerd.storage.postgres import PostgresDatabase
    from pollerd.storage.session_lock import SessionLock

    return PostgresDatabase(url, settings, session or (SessionLock() if exclusive else None))


def _require_file(path: Path, create: bool) -> None:
    if create:
        try:
            # Not world readable: the list of polled sites is private.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))
        except OSError as error:
            raise DatabaseUnavailableError(file_fault(path, error)) from error
