"""PostgreSQL, in the loop: a transaction of synchronous statements, each of which waits for the server."""

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
"""Connections that are kept; more would only queue inside the database."""
_OURS = frozenset({"timeout", "command_timeout", "server_settings", "loop", "connection_class", "record_class", "dsn"})
"""Arguments of `asyncpg.connect` that no URL may set."""


class PostgresDatabase:
    """A database of a PostgreSQL server."""

    def __init__(self, url: URL, settings: StorageSettings, *, exclusive: bool) -> None:
        """exclusive: only the holder of the daemon's lock writes.

        Raises `InvalidValueError` for a URL with options that the driver does not know.
        """
        self._engine = _engine(url, settings)
        self._writer = _engine(url, settings, SessionLock()) if exclusive else self._engine

    @property
    def engine(self) -> Engine:
        """Whose events tell of every statement that reads."""
        return self._engine.sync_engine

    async def lock(self) -> None:
        """Takes the daemon's lock where it was opened as exclusive. Raises `DatabaseInUseError`."""
        if self._writer is not self._engine:
            async with self._writer.connect():
                """Whoever connects has it."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns of a connection."""
        async with self._engine.connect() as connection:
            return await connection.run_sync(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns, after its transaction was committed whole.

        Raises `DatabaseInUseError` where the daemon's lock was lost to another.
        """
        async with self._writer.connect() as connection, connection.begin():
            return await connection.run_sync(work)

    async def stream(self, statement: Select[Any], piece: int) -> AsyncIterator[Sequence[Row[Any]]]:
        """The statement's rows, `piece` at a time."""
        async with self._engine.connect() as connection:
            result = await connection.stream(statement, execution_options={"yield_per": piece})
            async for rows in result.partitions():
                yield rows

    @staticmethod
    def in_loop(call: Callable[P, T]) -> Callable[P, T]:
        """The same for a transaction to call: it is in the loop already."""
        return call

    async def close(self) -> None:
        """Closes every connection. May be called twice."""
        for engine in {self._engine, self._writer}:
            await engine.dispose()


def _engine(url: URL, settings: StorageSettings, lock: SessionLock | None = None) -> AsyncEngine:
    """With `lock`: one connection, that holds it."""
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
        # The driver notices by itself that the server hung up: asking it takes three round trips each time.
        if connection.driver_connection.is_closed():
            raise DisconnectionError

    return engine


def _check_options(url: URL) -> None:
    known = sorted(set(inspect.signature(asyncpg.connect).parameters) - _OURS)
    for name in url.query:
        if name not in known:
            raise InvalidValueError("database", f"a URL with options among {', '.join(known)}", name)
