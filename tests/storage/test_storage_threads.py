"""A transaction in SQLite's threads: cancelled or closed it holds whole or not at all, and the loop goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.engine import Database, database_url
from pollerd.storage.settings import StorageSettings

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
_SECONDS = 60.0


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    found = Database(database_url(f"sqlite+aiosqlite:///{tmp_path}/a.db"), StorageSettings(), create=True)
    await found.write(lambda c: c.exec_driver_sql("CREATE TABLE t (x INTEGER)").close())
    yield found
    await found.close()


def insert(connection: Connection) -> None:
    connection.exec_driver_sql("INSERT INTO t VALUES (1)")


def count(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one())


async def has_begun(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, _SECONDS)


async def test_all_of_a_transaction_is_in_one_thread_that_is_not_the_loops(database: Database) -> None:
    seen: set[int] = set()

    def work(connection: Connection) -> None:
        for _ in range(5):
            insert(connection)
            seen.add(threading.get_ident())

    await database.write(work)
    assert len(seen) == 1
    assert threading.get_ident() not in seen
    assert await database.read(count) == 5


@pytest.mark.parametrize("statement", [_ENDLESS, "SELECT 1"], ids=["within a statement", "between two"])
async def test_a_cancelled_write_leaves_nothing(database: Database, statement: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        insert(connection)
        begun.set()
        if statement != _ENDLESS:
            assert go_on.wait(_SECONDS)
        connection.exec_driver_sql(statement)
        insert(connection)

    writing = asyncio.create_task(database.write(work))
    await has_begun(begun)
    writing.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(writing), _SECONDS)
    assert await database.read(count) == 0
    await database.write(insert)
    assert await database.read(count) == 1


async def test_a_cancelled_write_ends_only_when_its_thread_has(database: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        insert(connection)
        begun.set()
        assert go_on.wait(_SECONDS)

    writing, after = asyncio.create_task(database.write(work)), asyncio.create_task(database.write(insert))
    await has_begun(begun)
    for _ in range(3):
        writing.cancel()
        await asyncio.sleep(0.01)
    assert not writing.done()
    assert not after.done(), "the next writer waits for it"
    go_on.set()
    await asyncio.wait([writing])
    assert writing.cancelled()
    await after
    assert await database.read(count) in (1, 2), "whole or not at all"


async def test_a_cancelled_read_frees_its_thread(database: Database) -> None:
    for _ in range(10):
        reading = asyncio.create_task(database.read(lambda c: c.exec_driver_sql(_ENDLESS).close()))
        await asyncio.sleep(0.02)
        reading.cancel()
        await asyncio.wait([reading], timeout=_SECONDS)
        assert reading.cancelled()
    assert await database.read(count) == 0


async def test_closing_ends_what_runs_and_its_threads(tmp_path: Path) -> None:
    database = Database(database_url(f"sqlite:///{tmp_path}/b.db"), StorageSettings(), create=True)
    await database.write(lambda c: c.exec_driver_sql("CREATE TABLE t (x INTEGER)").close())
    begun = threading.Event()

    def read(connection: Connection) -> None:
        begun.set()
        connection.exec_driver_sql(_ENDLESS)

    reading = asyncio.create_task(database.read(read))
    await has_begun(begun)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("sqlite-")]
    await database.close()
    with pytest.raises(DatabaseUnavailableError):
        await reading
    for thread in threads:
        await asyncio.to_thread(thread.join, _SECONDS)
        assert not thread.is_alive()
    for call in (database.read(count), database.write(insert)):
        with pytest.raises(DatabaseUnavailableError, match="closed"):
            await call
    await database.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.db"], "the journal is in the file"


async def test_what_the_loop_changes_is_called_in_the_loop(database: Database) -> None:
    here = threading.get_ident()

    def refuse(number: int) -> int:
        assert threading.get_ident() == here
        if number > 2:
            raise ValueError(number)
        return number

    asked = database.in_loop(refuse)

    def work(connection: Connection) -> None:
        for number in range(5):
            insert(connection)
            assert asked(number) == number

    with pytest.raises(ValueError, match="3"):
        await database.write(work)
    assert await database.read(count) == 0


async def test_the_loop_turns_while_a_transaction_runs(database: Database) -> None:
    turned = threading.Event()

    def work(connection: Connection) -> bool:
        insert(connection)
        return turned.wait(_SECONDS)

    writing = asyncio.create_task(database.write(work))
    await asyncio.sleep(0)
    assert await database.read(count) == 0, "readers do not wait for a writer"
    turned.set()
    assert await writing
    assert await database.read(count) == 1
