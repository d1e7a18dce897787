"""PostgreSQL, in the loop: a transaction of synchronous statements, each of which awaits the server."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import asyncpg
from sqlalchemy import Connection, Engine, Row, Select, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from pollerd.errors import InvalidValueError
from pollerd.storage.db.session_lock import SessionLock
from pollerd.storage.settings import StorageSettings

T = TypeVar("T")
P = ParamSpec("P")

_POOL_SIZE = 5
"""Pooled connections; more would only queue inside the database."""
_OURS = frozenset({"timeout", "command_timeout", "server_settings", "loop", "connection_class", "record_class", "dsn"})
"""Arguments of `asyncpg.connect` that a URL may not set."""


class PostgresDatabase:
    """A database on a PostgreSQL server."""

    def __init__(self, url: URL, settings: StorageSettings, *, exclusive: bool) -> None:
        """exclusive: only the holder of the daemon's lock writes.

        Raises `InvalidValueError` for a URL with options unknown to the driver.
        """
        self._engine = _engine(url, settings)
        self._writer = _engine(url, settings, SessionLock()) if exclusive else self._engine

    @property
    def engine(self) -> Engine:
        """The engine whose events report every reading statement."""
        return self._engine.sync_engine

    async def lock(self) -> None:
        """Takes the daemon's lock if opened as exclusive. Raises `DatabaseInUseError`."""
        if self._writer is not self._engine:
            async with self._writer.connect():
                """Connecting takes the lock."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of `work` with a connection."""
        async with self._engine.connect() as connection:
            return await connection.run_sync(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of `work` after committing its transaction.

        Raises `DatabaseInUseError` if another daemon took the lock.
        """
        async with self._writer.connect() as connection, connection.begin():
            return await connection.run_sync(work)

    async def stream(self, statement: Select[Any], piece: int) -> AsyncIterator[Sequence[Row[Any]]]:
        """Yields the statement's rows, `piece` at a time."""
        async with self._engine.connect() as connection:
            result = await connection.stream(statement, execution_options={"yield_per": piece})
            async for rows in result.partitions():
                yield rows

    @staticmethod
    def in_loop(call: Callable[P, T]) -> Callable[P, T]:
        """Returns the function itself: a transaction already runs in the loop."""
        return call

    async def close(self) -> None:
        """Closes every connection. May be called twice."""
        for engine in {self._engine, self._writer}:
            await engine.dispose()


def _engine(url: URL, settings: StorageSettings, lock: SessionLock | None = None) -> AsyncEngine:
    """Returns an engine; with `lock`, one with a single connection, which holds it."""
    _check_options(url)
    connecting: dict[str, Any] = {} if lock is None else {"async_creator_fn": lock.connect}
    pool = {"pool_size": _POOL_SIZE} if lock is None else {"pool_size": 1, "max_overflow": 0}
    engine = create_async_engine(
        url,
        **pool,
        connect_args={
            **connecting,
            "timeout": settings.connect_timeout_seconds,
            "command_timeout": settings.statement_timeout_seconds,
            "server_settings": {
                "application_name": "pollerd" if lock is None else "pollerd writer",
                "lock_timeout": str(int(settings.busy_timeout_seconds * 1000)),
            },
        },
    )

    @event.listens_for(engine.sync_engine, "checkout")
    def leave_dead(connection: Any, _record: Any, _proxy: Any) -> None:
        # The driver itself notices a closed connection: a ping would take three round trips each time.
        if connection.driver_connection.is_closed():
            raise DisconnectionError

    return engine


def _check_options(url: URL) -> None:
    known = sorted(set(inspect.signature(asyncpg.connect).parameters) - _OURS)
    for name in url.query:
        if name not in known:
            raise InvalidValueError("database", f"a URL with options among {', '.join(known)}", name)
