"""SQLite, in threads: a whole transaction is one call into a thread, and costs the loop one iteration.

One thread writes, others read. A transaction runs concurrently with the loop: calls on objects that the loop changes go
through `in_loop`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Row, Select, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import QueuePool, StaticPool

from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.settings import StorageSettings
from pollerd.texts import _

T = TypeVar("T")
P = ParamSpec("P")

_READERS = 4
"""Concurrent reader threads, each started on first use."""
_TRANSACTION = "pollerd_transaction"
_INTERRUPTED_AGAIN_SECONDS = 0.05
"""Interval between interruptions: one that comes just before a statement starts has no effect."""

# The driver looks up an adapter for each parameter that is not of its four types; a missing one costs an exception,
# twice the rest of the parameter. These return their argument, in C.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(type(None), {}.get)  # type: ignore[arg-type]


class _Transaction(Generic[T]):
    """One transaction: runs in a thread, and can be aborted from the loop."""

    def __init__(self, engine: Engine, work: Callable[[Connection], T], *, writing: bool) -> None:
        self._engine, self._work, self.writing = engine, work, writing
        self._guard = threading.Lock()
        self._driver: sqlite3.Connection | None = None
        self._given_up = False

    def __call__(self) -> T:
        """Returns the result of the work; commits if it writes, otherwise rolls back."""
        self.check()
        with self._engine.connect() as connection:
            connection.execution_options(**{_TRANSACTION: self})
            self._runs_on(connection.connection.driver_connection)
            try:
                if not self.writing:
                    return self._work(connection)
                with connection.begin():
                    return self._work(connection)
            finally:
                self._runs_on(None)

    def _runs_on(self, driver: Any) -> None:
        with self._guard:
            self._driver = driver

    def give_up(self) -> None:
        """Aborts at the present statement and rolls back, unless it is already committing."""
        with self._guard:
            self._given_up = True
            if self._driver is not None:
                self._driver.interrupt()

    def check(self) -> None:
        """Raises `DatabaseUnavailableError` once it was aborted."""
        if self._given_up:
            raise DatabaseUnavailableError(_("the transaction was given up"))


class _Stream:
    """A statement's rows, a piece at a time."""

    def __init__(self, engine: Engine, statement: Select[Any], piece: int) -> None:
        self._engine, self._statement, self._piece = engine, statement, piece
        self._connection: Connection | None = None
        self._pieces: Iterator[Sequence[Row[Any]]] = iter(())

    def next(self) -> Sequence[Row[Any]] | None:
        """Returns the next piece; None after the last."""
        if self._connection is None:
            self._connection = self._engine.connect()
            result = self._connection.execute(self._statement, execution_options={"yield_per": self._piece})
            self._pieces = result.partitions()
        return next(self._pieces, None)

    def close(self) -> None:
        """Returns its connection to the pool."""
        if self._connection is not None:
            self._connection.close()


class SqliteDatabase:
    """An SQLite file, or a database in memory (path None)."""

    def __init__(self, url: URL, path: Path | None, settings: StorageSettings) -> None:
        self.engine = _engine(url, path, settings)
        self._writing = ThreadPoolExecutor(1, "sqlite-write")
        self._reading = ThreadPoolExecutor(_READERS, "sqlite-read")
        self._running: set[_Transaction[Any]] = set()
        self._closed = False

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of `work` with a connection. If cancelled, ends once the thread has finished."""
        return await self._run(self._reading, _Transaction(self.engine, work, writing=False))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of `work` after committing its transaction.

        If cancelled, ends once the transaction was committed or rolled back.
        """
        return await self._run(self._writing, _Transaction(self.engine, work, writing=True))

    async def stream(self, statement: Select[Any], piece: int) -> AsyncIterator[Sequence[Row[Any]]]:
        """Yields the statement's rows, `piece` at a time."""
        stream = _Stream(self.engine, statement, piece)
        try:
            while rows := await _result(self._submit(self._reading, stream.next)):
                yield rows
        finally:
            if self._closed:
                stream.close()
            else:
                await _result(self._submit(self._reading, stream.close))

    @staticmethod
    def in_loop(call: Callable[P, T]) -> Callable[P, T]:
        """Wraps a function for use in a transaction: it runs in the present loop, and the thread waits for it."""
        loop = asyncio.get_running_loop()

        def ask(*arguments: P.args, **options: P.kwargs) -> T:
            answer: Future[T] = Future()

            def finish() -> None:
                try:
                    answer.set_result(call(*arguments, **options))
                except Exception as error:  # noqa: BLE001
                    answer.set_exception(error)  # raised in the calling thread

            loop.call_soon_threadsafe(finish)
            return answer.result()

        return ask

    async def close(self) -> None:
        """Aborts running transactions, then closes every connection and ends the threads. May be called twice."""
        if self._closed:
            return
        self._closed = True
        ended = self._writing.submit(self._end)
        self._writing.shutdown(wait=False)
        while not ended.done():
            for transaction in tuple(self._running):
                transaction.give_up()
            await asyncio.wait([asyncio.wrap_future(ended)], timeout=_INTERRUPTED_AGAIN_SECONDS)
        ended.result()

    def _end(self) -> None:
        self._reading.shutdown()
        # The last connection to close checkpoints the journal into the file: that may take a while.
        self.engine.dispose()

    async def _run(self, threads: ThreadPoolExecutor, transaction: _Transaction[T]) -> T:
        self._running.add(transaction)
        try:
            return await _result(self._submit(threads, transaction), transaction.give_up)
        finally:
            self._running.discard(transaction)

    def _submit(self, threads: ThreadPoolExecutor, call: Callable[[], T]) -> Future[T]:
        if self._closed:
            raise DatabaseUnavailableError(_("the database was closed"))
        return threads.submit(call)


async def _result(future: Future[T], give_up: Callable[[], None] | None = None) -> T:
    """Returns the thread's result. If cancelled, aborts it and waits until the thread has finished."""
    wrapped = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(wrapped)
    except asyncio.CancelledError:
        while not wrapped.done():
            if give_up is not None:
                give_up()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([wrapped], timeout=_INTERRUPTED_AGAIN_SECONDS)
        wrapped.exception()  # its result is no longer needed
        raise


def _engine(url: URL, path: Path | None, settings: StorageSettings) -> Engine:
    # Reuse the free connection used last, whose cache is warm. A database in memory is its one connection.
    pool: dict[str, Any] = {"poolclass": StaticPool}
    if path is not None:
        pool = {"poolclass": QueuePool, "pool_size": _READERS + 1, "max_overflow": -1, "pool_use_lifo": True}
    engine = create_engine(url, **pool)

    @event.listens_for(engine, "do_connect")
    def open_file(_dialect: Any, _record: Any, args: list[Any], options: dict[str, Any]) -> None:
        options["timeout"] = settings.busy_timeout_seconds
        # No implicit transactions of the driver: ours begin explicitly.
        options["isolation_level"] = None
        # A connection moves between threads, but is never used by two at once.
        options["check_same_thread"] = False
        if path is not None:
            # mode=rw: a missing file is an error, never a new database.
            args[0] = f"file:{quote(str(path))}?mode=rw"
            options["uri"] = True

    @event.listens_for(engine, "connect")
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

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # IMMEDIATE takes the write lock at once: a transaction that reads first could not be upgraded later.
        transaction = connection.get_execution_options().get(_TRANSACTION)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if transaction and transaction.writing else "BEGIN")

    @event.listens_for(engine, "before_cursor_execute")
    def check(connection: Connection, *_statement: Any) -> None:
        transaction = connection.get_execution_options().get(_TRANSACTION)
        if transaction is not None:
            transaction.check()

    return engine
