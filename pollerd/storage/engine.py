"""A database by URL: its engine, its transactions, and whether it is still the one that was opened."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Row, Select, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.storage.failures import mapped
from pollerd.storage.settings import StorageSettings

T = TypeVar("T")

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}
_ALLOWED = "sqlite:///path or postgresql://user@host/name"
# One for the writer, the rest for readers; more would only queue inside the database.
_POOL_SIZE = 5
_WRITING = "pollerd_writing"


def database_url(text: str) -> URL:
    """The URL with its async driver. Plain `sqlite:`, `postgresql:` and `postgres:` are understood.

    Raises `InvalidValueError` for anything else.
    """
    try:
        url = make_url(text)
    except ArgumentError as error:
        # The URL may hold a password: only its scheme is repeated.
        raise InvalidValueError("database", _ALLOWED, text.split(":", 1)[0]) from error
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise InvalidValueError("database", _ALLOWED, url.drivername)
    return url.set(drivername=driver)


def sqlite_path(url: URL) -> Path | None:
    """The file of an SQLite URL; None in memory and for PostgreSQL."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database)).absolute()


class Database:
    """One database, open. Writers queue here, so that they never wait for each other inside SQLite."""

    def __init__(self, url: URL, settings: StorageSettings, *, create: bool) -> None:
        """Raises `DatabaseUnavailableError` where an SQLite file is missing and `create` is false, or unusable."""
        self.url = url
        self.path = sqlite_path(url)
        if self.path is not None:
            _require_file(self.path, create)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self._in_memory = self.is_sqlite and self.path is None
        self._identity = self._look_at_file()
        self._write_lock = asyncio.Lock()
        self.engine = self._sqlite_engine(settings) if self.is_sqlite else _postgres_engine(url, settings)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns of a connection. Raises `DatabaseUnavailableError`."""
        if self._in_memory:
            # All share one connection: a reader would see a writer's half-done transaction.
            async with self._write_lock:
                return await self._read(work)
        return await self._read(work)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        with mapped():
            async with self.engine.connect() as connection:
                return await connection.run_sync(work)

    async def stream(self, statement: Select[Any], piece: int) -> AsyncIterator[Sequence[Row[Any]]]:
        """The statement's rows, `piece` at a time, without holding them all. Raises `DatabaseUnavailableError`."""
        with mapped():
            async with self.engine.connect() as connection:
                result = await connection.stream(statement, execution_options={"yield_per": piece})
                async for rows in result.partitions():
                    yield rows

    async def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns, after its transaction was committed whole. Raises `DatabaseUnavailableError`."""
        async with self._write_lock:
            self.verify_file()
            with mapped():
                async with self.engine.connect() as plain:
                    connection = await plain.execution_options(**{_WRITING: True})
                    async with connection.begin():
                        return await connection.run_sync(work)

    def verify_file(self) -> None:
        """Raises `DatabaseUnavailableError` where the SQLite file vanished or is another one than was opened."""
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
        """Close every connection. May be called twice."""
        await self.engine.dispose()

    def _sqlite_engine(self, settings: StorageSettings) -> AsyncEngine:
        kwargs: dict[str, Any] = {"poolclass": StaticPool} if self._in_memory else {"pool_size": _POOL_SIZE}
        engine = create_async_engine(self.url, **kwargs)
        sync = engine.sync_engine
        path = self.path

        @event.listens_for(sync, "do_connect")
        def open_file(_dialect: Any, _record: Any, args: list[Any], options: dict[str, Any]) -> None:
            options["timeout"] = settings.busy_timeout_seconds
            # No transactions of the driver's making: ours begin where we say.
            options["isolation_level"] = None
            if path is not None:
                # mode=rw: a vanished file is an error, never a fresh database.
                args[0] = f"file:{quote(str(path))}?mode=rw"
                options["uri"] = True

        @event.listens_for(sync, "connect")
        def set_pragmas(connection: Any, _record: Any) -> None:
            cursor = connection.cursor()
            for pragma in (
                "journal_mode=WAL",
                "synchronous=NORMAL",
                "foreign_keys=ON",
                "cache_size=-16384",
                "journal_size_limit=67108864",
            ):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.close()

        @event.listens_for(sync, "begin")
        def begin(connection: Connection) -> None:
            # IMMEDIATE takes the write lock at once: a transaction that reads first could not be promoted later.
            writing = connection.get_execution_options().get(_WRITING, False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

        return engine


def _require_file(path: Path, create: bool) -> None:
    if create:
        try:
            # Not world readable: what is polled is the operator's business.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))
        except OSError as error:
            raise DatabaseUnavailableError(f"{path}: {error.strerror}") from error


def _postgres_engine(url: URL, settings: StorageSettings) -> AsyncEngine:
    return create_async_engine(
        url,
        pool_size=_POOL_SIZE,
        pool_pre_ping=True,
        connect_args={
            "timeout": settings.connect_timeout_seconds,
            "command_timeout": settings.statement_timeout_seconds,
            "server_settings": {
                "application_name": "pollerd",
                "lock_timeout": str(int(settings.busy_timeout_seconds * 1000)),
            },
        },
    )
