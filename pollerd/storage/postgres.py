"""PostgreSQL, in the loop: a transaction of synchronous statements, each of which awaits the server."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

import asyncpg
from sqlalchemy import Connection, Engine, Row, Select, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from pollerd.errors import InvalidValueError
from pollerd.storage.session_lock import SessionLock
from pollerd.storage.settings import StorageSettings
from pollerd.texts import _

T = TypeVar("T")
P = ParamSpec("P")

_POOL_SIZE = 5
"""Pooled connections; more would only queue inside the database."""
_OURS = frozenset({"timeout", "command_timeout", "server_settings", "loop", "connection_class", "record_class", "dsn"})
"""Arguments of `asyncpg.connect` that a URL may not set."""


class PostgresDatabase:
    """A database on a PostgreSQL server."""

    def __init__(self, url: URL, settings: StorageSettings, lock: SessionLock | None) -> None:
        """lock: only sessions that hold it write; None: all do.

        Raises `InvalidValueError` for a URL with options unknown to the driver.
        """
        self._url, self._settings, self._lock = url, settings, lock
        self._engine = _engine(url, settings)
        self._writer = self._engine if lock is None else _engine(url, settings, lock)

    @property
    def engine(self) -> Engine:
        """The engine whose events report every reading statement."""
        return self._engine.sync_engine

    async def lock(self) -> None:
        """Takes the lock, if there is one. Raises `DatabaseInUseError`."""
        if self._writer is not self._engine:
            async with self._writer.connect():
                """Connecting takes the lock."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of `work` with a connection, each of whose statements is a transaction of its own.

        A transaction around them would show them no more of one moment, and cost two round trips.
        """
        async with self._engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            return await connection.run_sync(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of `work` after committing its transaction.

        Raises `DatabaseInUseError` if another daemon took the lock.
        """
        async with self._writer.connect() as connection, connection.begin():
            result = await connection.run_sync(work)
            # COMMIT is sent after this: the server hears from us later than now, however late its answer is read.
            asked_at = time.monotonic() if await _in_transaction(connection) else None
        if self._lock is not None and asked_at is not None:
            self._lock.answered(asked_at)
        return result

    async def stream(self, statement: Select[Any], piece: int) -> AsyncIterator[Sequence[Row[Any]]]:
        """Yields the statement's rows, `piece` at a time."""
        async with self._engine.connect() as connection:
            result = await connection.stream(statement, execution_options={"yield_per": piece})
            async for rows in result.partitions():
                yield rows

    @asynccontextmanager
    async def listening(
        self, channel: str, on_message: Callable[[str], None], lost: Callable[[], None]
    ) -> AsyncIterator[Callable[[Callable[[Connection], T]], Awaitable[T]]]:
        """Calls `on_message` with each one on the channel, on a connection of its own, and `lost` when that has ended.

        The block reads with the function that it is given, on the same connection.
        """
        engine = _engine(self._url, self._settings, name="pollerd listener")
        try:
            async with engine.connect() as connection:
                raw = (await connection.get_raw_connection()).driver_connection
                assert raw is not None
                raw.add_termination_listener(lambda _connection: lost())
                await raw.add_listener(channel, lambda _c, _p, _n, message: on_message(message))

                async def read(work: Callable[[Connection], T]) -> T:
                    try:
                        return await connection.run_sync(work)
                    finally:
                        await connection.rollback()

                yield read
        finally:
            await engine.dispose()

    @staticmethod
    def in_loop(call: Callable[P, T]) -> Callable[P, T]:
        """Returns the function itself: a transaction already runs in the loop."""
        return call

    async def close(self) -> None:
        """Closes every connection. May be called twice."""
        for engine in {self._engine, self._writer}:
            await engine.dispose()


async def _in_transaction(connection: AsyncConnection) -> bool:
    """Returns whether any statement ran, so that there is something to commit."""
    driver = (await connection.get_raw_connection()).driver_connection
    return driver is not None and bool(driver.is_in_transaction())


def _engine(
    url: URL, settings: StorageSettings, lock: SessionLock | None = None, *, name: str = "pollerd"
) -> AsyncEngine:
    """Returns an engine; with `lock`, one with a single connection, which holds it. name: of its sessions."""
    _check_options(url)
    of_session = {"application_name": name}
    if lock is not None:
        of_session = {"application_name": lock.application, **lock.session_settings}
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
                **of_session,
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
            raise InvalidValueError("database", _("a URL with options among {known}", known=", ".join(known)), name)
