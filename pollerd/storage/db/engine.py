"""Opens a database by URL: its engine, its transactions, and the check that its file is still the same."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, Row, Select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from pollerd.errors import ConfigError, DatabaseUnavailableError, InvalidValueError
from pollerd.storage.db.failures import mapped
from pollerd.storage.db.lock import FileLock
from pollerd.storage.settings import StorageSettings

if TYPE_CHECKING:
    from pollerd.storage.db.postgres import PostgresDatabase
    from pollerd.storage.db.session_lock import SessionLock
    from pollerd.storage.db.sqlite import SqliteDatabase

T = TypeVar("T")
P = ParamSpec("P")

_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+aiosqlite": "sqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}
_ALLOWED = "sqlite:///path or postgresql://user@host/name"
_CLOSE_SECONDS = 5.0


def database_url(text: str) -> URL:
    """Returns the URL with its driver. Accepts plain `sqlite:`, `postgresql:` and `postgres:`.

    Raises `InvalidValueError` for anything else.
    """
    try:
        url = make_url(text)
    except ArgumentError as error:
        # The URL may contain a password: only its scheme is shown.
        raise InvalidValueError("database", _ALLOWED, text.split(":", 1)[0]) from error
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise InvalidValueError("database", _ALLOWED, url.drivername)
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
        raise ConfigError(f"database {path}: there is no folder {path.parent}")
    if path is not None and path.is_dir():
        raise ConfigError(f"database {path}: is a folder")


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
            raise DatabaseUnavailableError(f"{self.path}: was replaced by another file")

    def _look_at_file(self) -> tuple[int, int] | None:
        if self.path is None:
            return None
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise DatabaseUnavailableError(f"{self.path}: {error.strerror}") from error
        return found.st_dev, found.st_ino

    async def close(self) -> None:
        """Closes every connection, then releases the lock. May be called twice; does not wait for a dead server."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._driver.close()
        if self._lock is not None:
            self._lock.release()


# Each driver is imported where it is used: PostgreSQL's takes megabytes that users of SQLite do not need.


def _sqlite(url: URL, path: Path | None, settings: StorageSettings) -> SqliteDatabase:
    from pollerd.storage.db.sqlite import SqliteDatabase

    return SqliteDatabase(url, path, settings)


def _postgres(url: URL, settings: StorageSettings, exclusive: bool, session: SessionLock | None) -> PostgresDatabase:
    from pollerd.storage.db.postgres import PostgresDatabase
    from pollerd.storage.db.session_lock import SessionLock

    return PostgresDatabase(url, settings, session or (SessionLock() if exclusive else None))


def _require_file(path: Path, create: bool) -> None:
    if create:
        try:
            # Not world readable: the list of polled sites is private.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))
        except OSError as error:
            raise DatabaseUnavailableError(f"{path}: {error.strerror}") from error
