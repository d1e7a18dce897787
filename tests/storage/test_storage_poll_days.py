"""Polls on PostgreSQL: a partition a day, made ahead, dropped whole; none is lost for want of one."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest
from sqlalchemy import Connection, event

from pollerd.storage import migrate
from pollerd.storage.engine import Database, database_url
from pollerd.storage.poll_days import DAYS_AHEAD
from pollerd.storage.schema import poll as poll_table
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import PruneResult
from tests.storage.samples import add, poll_all, query

DAY = 86_400.0
PARTITIONS = "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' ORDER BY relname"
DEFAULT = ("poll_default",)


@pytest.fixture
def url(postgres_url: str) -> str:
    """In place of the suite's: SQLite has one table."""
    return postgres_url


@pytest.fixture
async def locked(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection that reads the table of polls for long, as a backup does."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    await connection.execute("BEGIN; LOCK TABLE poll IN ACCESS SHARE MODE; SELECT count(*) FROM poll")
    yield connection
    await connection.close()


async def polls_in(url: str, table: str) -> list[float]:
    return [at for (at,) in await query(url, f"SELECT at FROM {table} ORDER BY at")]


async def test_a_commit_makes_the_partition_that_its_polls_need(store: Store, url: str) -> None:
    sites = await add(store, 2)
    assert await query(url, PARTITIONS) == [DEFAULT]
    for at in (10.0, DAY - 1e-3, DAY, 400 * DAY + 5.0, -1.0):  # also back: a clock may have been wrong
        await poll_all(store, sites, at)
    names = ["poll_19691231", "poll_19700101", "poll_19700102", "poll_19710205"]
    assert await query(url, PARTITIONS) == [*((name,) for name in names), DEFAULT]
    assert await polls_in(url, "poll_19700101") == [10.0, 10.0, DAY - 1e-3, DAY - 1e-3]
    assert await polls_in(url, "poll_default") == []
    page = await store.history.list_polls(sites[0], limit=3)
    assert [poll.at for poll in page.items] == [-1.0, 400 * DAY + 5.0, DAY]
    assert page.next_cursor is not None
    rest = await store.history.list_polls(sites[0], cursor=page.next_cursor)
    assert [poll.at for poll in rest.items] == [DAY - 1e-3, 10.0]


async def test_maintenance_makes_the_days_to_come(store: Store, url: str) -> None:
    await store.prune(1000 * DAY + 5.0)
    names = ["poll_19720927", "poll_19720928", "poll_19720929", "poll_19720930"]
    assert len(names) == DAYS_AHEAD + 1
    assert await query(url, PARTITIONS) == [*((name,) for name in names), DEFAULT]
    await store.prune(1000 * DAY + 6.0)
    assert len(await query(url, PARTITIONS)) == DAYS_AHEAD + 2


async def test_a_long_reader_costs_no_poll_its_place(store: Store, url: str, locked: asyncpg.Connection) -> None:
    """Polls go to the default partition, without waiting twice, and from there to their own."""
    [site] = await add(store, 1)
    await poll_all(store, [site], 10.0)
    assert await polls_in(url, "poll_default") == [10.0]
    await poll_all(store, [site], 20.0)
    await locked.execute("ROLLBACK")
    await store.prune(30.0)
    assert await polls_in(url, "poll_19700101") == [10.0, 20.0]
    assert await polls_in(url, "poll_default") == []
    assert [poll.id for poll in (await store.history.list_polls(site)).items] == [2, 1]


async def test_days_past_the_retention_are_dropped_whole(url: str) -> None:
    store = await Store.open(url, settings=StorageSettings(poll_retention_seconds=DAY))
    sites = await add(store, 2)
    for at in (10.0, DAY + 10.0, 2 * DAY + 10.0):
        await poll_all(store, sites, at)
    assert await store.prune(2 * DAY - 1e-3) == PruneResult()
    assert await store.prune(2 * DAY) == PruneResult(polls=2)
    assert [poll.at for poll in (await store.history.list_polls(sites[0])).items] == [2 * DAY + 10.0, DAY + 10.0]
    assert (await store.sites.get(sites[0])).polls == 3
    # A poll of a day that is gone, by a clock that jumped, gets it back.
    await poll_all(store, sites, 20.0)
    assert await polls_in(url, "poll_19700101") == [20.0, 20.0]
    assert await store.prune(2 * DAY + 5.0) == PruneResult(polls=2)
    await store.close()


async def test_a_day_that_is_read_is_dropped_later(url: str) -> None:
    store = await Store.open(url, settings=StorageSettings(poll_retention_seconds=DAY))
    [site] = await add(store, 1)
    await poll_all(store, [site], 10.0)
    reader = await asyncpg.connect(url.replace("+asyncpg", ""))
    await reader.execute("BEGIN; SELECT count(*) FROM poll")
    assert (await store.prune(3 * DAY)).polls == 0
    await reader.close()
    assert (await store.prune(3 * DAY)).polls == 1
    await store.close()


async def test_a_deleted_site_takes_its_polls_of_all_days_along(store: Store, url: str) -> None:
    sites = await add(store, 2)
    for day in range(3):
        await poll_all(store, sites, day * DAY)
    await store.sites.delete(sites[0], 1.0)
    assert await query(url, "SELECT site_id, count(*) FROM poll GROUP BY site_id") == [(sites[1], 3)]


async def test_two_that_make_a_day_at_once(url: str) -> None:
    """As nodes of one database do."""
    stores = [await Store.open(url, exclusive=False) for _ in range(2)]
    await asyncio.gather(*(store.prune(5.0) for store in stores))
    assert len(await query(url, PARTITIONS)) == DAYS_AHEAD + 2
    for one in stores:
        await one.close()


async def test_a_table_of_the_name_is_left_alone(store: Store, url: str) -> None:
    [site] = await add(store, 1)
    await poll_all(store, [site], 10.0)
    await query(url, "ALTER TABLE poll DETACH PARTITION poll_19700101")
    await store.prune(20.0)
    await poll_all(store, [site], 30.0)
    assert (await polls_in(url, "poll_19700101"), await polls_in(url, "poll_19700101_2")) == ([10.0], [30.0])
    await query(url, "DROP TABLE poll_19700101")


async def fill(store: Store, days: int) -> list[int]:
    sites = await add(store, 3)
    for day in range(days):
        await poll_all(store, sites, day * DAY + 5.0, b"%d" % day, changed=True)
    return sites


async def plans(store: Store, url: str, *reads: object) -> list[str]:
    """How the server goes about what is read."""
    engine, seen = store.database.engine, list[tuple[str, object]]()

    def note(_c: Connection, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        seen.append((statement, parameters))

    await query(url, "ANALYZE")
    event.listen(engine, "before_cursor_execute", note)
    for read in reads:
        await read  # type: ignore[misc]
    event.remove(engine, "before_cursor_execute", note)

    def explain(connection: Connection) -> list[str]:
        rows = (connection.exec_driver_sql(f"EXPLAIN {sql}", values) for sql, values in seen)  # type: ignore[arg-type]
        return ["\n".join(row[0] for row in found) for found in rows]

    return await store.database.read(explain)


async def test_reads_take_the_indexes_and_leave_out_other_days(store: Store, url: str) -> None:
    sites = await fill(store, 4)
    rows = f"CASE WHEN n % 400 = 0 THEN {sites[0]} ELSE {sites[1]} END, n * {4 * DAY} / 8000, 'unchanged', 0, 0, false"
    more = f"SELECT {rows} FROM generate_series(0, 7999) AS n"
    await query(url, f"INSERT INTO poll (site_id, at, outcome, duration, bytes, changed) {more}")
    history = store.history
    listed, strip, last, last_at = await plans(
        store,
        url,
        history.list_polls(sites[0], 2),
        history.strip(sites[0], 2 * DAY),
        history.last_poll_id(),
        history.last_poll_at(),
    )
    assert not re.search("Seq Scan on poll_1", listed + strip + last + last_at)
    assert "Merge Append" in listed
    assert "poll_19700104_site_id_id_idx" in listed
    assert "poll_19700103" in strip
    assert "poll_19700101" not in strip
    assert "poll_19700104_pkey" in last
    assert "poll_19700104_pkey" in last_at


async def test_reads_find_polls_of_all_days(store: Store) -> None:
    sites = await fill(store, 4)
    history = store.history
    assert (await history.last_poll_id(), await history.last_poll_at()) == (12, 3 * DAY + 5.0)
    strip = await history.strip(sites[0], 2 * DAY)
    assert strip.at.tolist() == [3 * DAY + 5.0, 2 * DAY + 5.0]
    recent = [piece async for piece in history.recent_polls(2, after=3)]
    assert [at for piece in recent for at in piece.at.tolist()] == [2 * DAY + 5.0] * 3 + [3 * DAY + 5.0] * 3


_COLUMNS_THEN = [column.name for column in poll_table.columns if column.name not in ("at_least", "span")]
"""Columns of polls when partitions came."""


async def moved_down(url: str, settings: StorageSettings) -> None:
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0020"))
    await database.close()


async def test_the_migration_keeps_all_polls_where_they_are(new_postgres_url: str, settings: StorageSettings) -> None:
    url, now = new_postgres_url, time.time()
    store = await Store.open(url, settings=settings)
    sites = await fill(store, 3)
    await poll_all(store, sites, now)
    await poll_all(store, sites, now + 10 * DAY)
    await store.close()
    everything = f"SELECT {', '.join(_COLUMNS_THEN)} FROM poll ORDER BY id"
    before = await query(url, everything)
    await moved_down(url, settings)
    assert await query(url, everything) == before
    assert await query(url, PARTITIONS) == []
    assert await migrate.upgrade(url) == migrate.head()
    assert await query(url, everything) == before
    assert await query(url, PARTITIONS) == [DEFAULT, ("poll_old",)]
    assert await polls_in(url, "poll_default") == [now + 10 * DAY] * 3

    kept = StorageSettings(poll_retention_seconds=now - DAY)
    store = await Store.open(url, settings=kept)
    await poll_all(store, sites, now + 1)
    assert await store.history.last_poll_id() == len(before) + 3
    # Rows of the old table are deleted one by one, and the table once all of it is past.
    assert (await store.prune(now)).polls == 3
    assert len(await polls_in(url, "poll_old")) == len(before) - 3
    assert await polls_in(url, "poll_default") == []
    held = len(await polls_in(url, "poll_old"))
    assert (await store.prune(2 * now)).polls >= held
    assert ("poll_old",) not in await query(url, PARTITIONS)
    await store.close()
