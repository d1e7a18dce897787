"""SQLite, in threads: a whole transaction is one call into a thread, so that the loop turns once for it.

One thread writes, others read. Between its statements a transaction runs beside the loop: what it calls of objects
that the loop changes goes through `in_loop`.
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

T = TypeVar("T")
P = ParamSpec("P")

_READERS = 4
"""Threads that read at once, each started when it is first needed."""
_TRANSACTION = "pollerd_transaction"
_INTERRUPTED_AGAIN_SECONDS = 0.05
"""An interruption that comes just before a statement begins is lost."""

# The driver looks for an adapter of each parameter that is none of its four types, and finding none costs it an
# exception, twice what the rest of the parameter does. These give back what they are given, in C.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(type(None), {}.get)  # type: ignore[arg-type]


class _Transaction(Generic[T]):
    """One transaction: runs in a thread, and can be given up from the loop."""

    def __init__(self, engine: Engine, work: Callable[[Connection], T], *, writing: bool) -> None:
        self._engine, self._work, self.writing = engine, work, writing
        self._guard = threading.Lock()
        self._driver: sqlite3.Connection | None = None
        self._given_up = False

    def __call__(self) -> T:
        """What the work returns; committed whole where it writes, otherwise rolled back."""
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
        """It ends with its present statement, and rolls back, unless it commits already."""
        with self._guard:
            self._given_up = True
            if self._driver is not None:
                self._driver.interrupt()

    def check(self) -> None:
        """Raises `DatabaseUnavailableError` once it was given up."""
        if self._given_up:
            raise DatabaseUnavailableError("the transaction was given up")


class _Stream:
    """A statement's rows, a piece at a time."""

    def __init__(self, engine: Engine, statement: Select[Any], piece: int) -> None:
        self._engine, self._statement, self._piece = engine, statement, piece
        self._connection: Connection | None = None
        self._pieces: Iterator[Sequence[Row[Any]]] = iter(())

    def next(self) -> Sequence[Row[Any]] | None:
        """The next piece; None after the last."""
        if self._connection is None:
            self._connection = self._engine.connect()
            result = self._connection.execute(self._statement, execution_options={"yield_per": self._piece})
            self._pieces = result.partitions()
        return next(self._pieces, None)

    def close(self) -> None:
        """Gives its connection back."""
        if self._connection is not None:
            self._connection.close()


class SqliteDatabase:
    """An SQLite file, or one in memory (path None)."""

    def __init__(self, url: URL, path: Path | None, settings: StorageSettings) -> None:
        self.engine = _engine(url, path, settings)
        self._writing = ThreadPoolExecutor(1, "sqlite-write")
        self._reading = ThreadPoolExecutor(_READERS, "sqlite-read")
        self._running: set[_Transaction[Any]] = set()
        self._closed = False

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns of a connection. Cancelled, it ends once the thread is done with it."""
        return await self._run(self._reading, _Transaction(self.engine, work, writing=False))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns, after its transaction was committed whole.

        Cancelled, it ends once the transaction was committed or rolled back.
        """
        return await self._run(self._writing, _Transaction(self.engine, work, writing=True))

    async def stream(self, statement: Select[Any], piece: int) -> AsyncIterator[Sequence[Row[Any]]]:
        """The statement's rows, `piece` at a time."""
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
        """The same for a transaction to call: it runs in the present loop, and the thread waits for it."""
        loop = asyncio.get_running_loop()

        def ask(*arguments: P.args, **options: P.kwargs) -> T:
            answer: Future[T] = Future()

            def finish() -> None:
                try:
                    answer.set_result(call(*arguments, **options))
                except Exception as error:  # noqa: BLE001
                    answer.set_exception(error)  # raised where it was asked for

            loop.call_soon_threadsafe(finish)
            return answer.result()

        return ask

    async def close(self) -> None:
        """Gives up what runs, then closes every connection and ends the threads. May be called twice."""
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
        # The last to close copies the journal into the file: that may take a while.
        self.engine.dispose()

    async def _run(self, threads: ThreadPoolExecutor, transaction: _Transaction[T]) -> T:
        self._running.add(transaction)
        try:
            return await _result(self._submit(threads, transaction), transaction.give_up)
        finally:
            self._running.discard(transaction)

    def _submit(self, threads: ThreadPoolExecutor, call: Callable[[], T]) -> Future[T]:
        if self._closed:
            raise DatabaseUnavailableError("the database was closed")
        return threads.submit(call)


async def _result(future: Future[T], give_up: Callable[[], None] | None = None) -> T:
    """What the thread gives. Cancelled, it gives up, and ends only when the thread has ended it."""
    found = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(found)
    except asyncio.CancelledError:
        while not found.done():
            if give_up is not None:
                give_up()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([found], timeout=_INTERRUPTED_AGAIN_SECONDS)
        found.exception()  # what it ended with does not matter any more
        raise


def _engine(url: URL, path: Path | None, settings: StorageSettings) -> Engine:
    # Of those that are free the one used last, whose cache is warm. A database in memory is its one connection.
    pool: dict[str, Any] = {"poolclass": StaticPool}
    if path is not None:
        pool = {"poolclass": QueuePool, "pool_size": _READERS + 1, "max_overflow": -1, "pool_use_lifo": True}
    engine = create_engine(url, **pool)

    @event.listens_for(engine, "do_connect")
    def open_file(_dialect: Any, _record: Any, args: list[Any], options: dict[str, Any]) -> None:
        options["timeout"] = settings.busy_timeout_seconds
        # No transactions of the driver's making: ours begin where we say.
        options["isolation_level"] = None
        # A connection goes from thread to thread, never to two at once.
        options["check_same_thread"] = False
        if path is not None:
            # mode=rw: a vanished file is an error, never a fresh database.
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
        # IMMEDIATE takes the write lock at once: a transaction that reads first could not be promoted later.
        transaction = connection.get_execution_options().get(_TRANSACTION)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if transaction and transaction.writing else "BEGIN")

    @event.listens_for(engine, "before_cursor_execute")
    def check(connection: Connection, *_: Any) -> None:
        transaction = connection.get_execution_options().get(_TRANSACTION)
        if transaction is not None:
            transaction.check()

    return engine
