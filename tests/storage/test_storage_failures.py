"""Locked, full, vanished, not answering: an error that may pass, nothing written, and the same batch goes in later."""

from __future__ import annotations

import asyncio
import random
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError, InvalidValueError
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import add, file_of, poll_all, query, record, retry_while_unavailable, schedule_of
from tests.support.postgres import execute


async def some_batch(store: Store) -> Batch:
    """A batch of two changed sites, that is not committed yet."""
    sites = [site.id async for site in store.sites.iterate()] or await add(store, 2)
    contexts = await store.sites.contexts(sites)
    return Batch([record(contexts[s], 20.0, b"x" * 100, changed=True) for s in sites])


async def assert_goes_in_once(store: Store, batch: Batch) -> None:
    result = await store.commit(batch)
    assert await store.commit(batch) == result
    assert [c.record for c in result.changes] == [0, 1]
    rows = await schedule_of(store)
    assert (rows.polls.tolist(), rows.changes.tolist()) == ([1, 1], [1, 1])


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    """Somebody else holds what a commit needs."""
    if url.startswith("sqlite"):
        other = sqlite3.connect(file_of(url), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield
        other.close()
    else:
        server = await asyncpg.connect(url.replace("+asyncpg", ""))
        async with server.transaction():
            await server.execute("LOCK TABLE site_state IN ACCESS EXCLUSIVE MODE")
            yield
        await server.close()


async def test_a_locked_database(store: Store, url: str) -> None:
    batch = await some_batch(store)
    async with locked(url):
        for _ in range(2):
            with pytest.raises(DatabaseUnavailableError, match="lock"):
                await store.commit(batch)
    assert await query(url, "SELECT count(*) FROM poll") == [(0,)]
    await assert_goes_in_once(store, batch)


async def test_a_vanished_file(sqlite_url: str) -> None:
    store = await Store.open(sqlite_url)
    batch = await some_batch(store)
    file = file_of(sqlite_url)
    away = file.with_name("away.db")
    file.rename(away)
    for call in (store.commit(batch), store.check(), store.sites.delete(1, 1.0)):
        with pytest.raises(DatabaseUnavailableError, match="there is no file"):
            await call
    assert not file.exists(), "never a silent fresh database"
    away.rename(file)
    await store.check()
    await assert_goes_in_once(store, batch)
    await store.close()


async def test_a_replaced_file(sqlite_url: str, tmp_path: Path) -> None:
    store = await Store.open(sqlite_url)
    batch = await some_batch(store)
    file = file_of(sqlite_url)
    file.rename(tmp_path / "old.db")
    file.write_bytes(b"")
    for call in (store.commit(batch), store.check()):
        with pytest.raises(DatabaseUnavailableError, match="replaced"):
            await call
    assert file.read_bytes() == b""
    await store.close()


async def pragma(store: Store, text: str) -> None:
    """Set on the one connection that sequential calls share."""
    await store.database.read(lambda c: c.exec_driver_sql(f"PRAGMA {text}").close())


@pytest.mark.parametrize(
    ("broken", "mended", "words"),
    [("max_page_count=1", "max_page_count=1073741823", "full"), ("query_only=ON", "query_only=OFF", "readonly")],
)
async def test_a_full_or_readonly_database(sqlite_url: str, broken: str, mended: str, words: str) -> None:
    store = await Store.open(sqlite_url)
    sites = await add(store, 2)
    contexts = await store.sites.contexts(sites)
    # Content that does not compress away, so that new pages are needed.
    contents = {s: random.Random(s).randbytes(100_000) for s in sites}
    batch = Batch([record(contexts[s], 20.0, contents[s], changed=True) for s in sites])
    await pragma(store, broken)
    with pytest.raises(DatabaseUnavailableError, match=words):
        await store.commit(batch)
    await pragma(store, mended)
    assert await query(sqlite_url, "SELECT count(*) FROM poll") == [(0,)]
    await assert_goes_in_once(store, batch)
    await store.close()


async def test_connections_that_the_server_ends(postgres_url: str, settings: StorageSettings) -> None:
    store = await Store.open(postgres_url, settings=settings)
    await store.runs.start("1", 1.0)
    batch = await some_batch(store)
    name = make_url(postgres_url).database
    await asyncio.to_thread(execute, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    await retry_while_unavailable(lambda: store.commit(batch))
    await assert_goes_in_once(store, batch)
    with pytest.raises(DatabaseInUseError):
        await Store.open(postgres_url, settings=settings)
    await store.close()


async def test_another_daemon_took_over(postgres_url: str, settings: StorageSettings) -> None:
    first = await Store.open(postgres_url, settings=settings)
    await first.runs.start("1", 1.0)
    batch = await some_batch(first)
    name = make_url(postgres_url).database
    await asyncio.to_thread(execute, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    second = await Store.open(postgres_url, settings=settings)
    await second.runs.start("1", 2.0)
    with pytest.raises(DatabaseInUseError):
        await retry_while_unavailable(lambda: first.commit(batch))
    await second.close()
    with pytest.raises(DatabaseInUseError, match="took over"):
        await retry_while_unavailable(lambda: first.commit(batch))
    assert await query(postgres_url, "SELECT count(*) FROM poll") == [(0,)]
    await first.close()


async def test_no_server_and_no_such_database(postgres_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(DatabaseUnavailableError):
            await Store.open(f"postgresql://u@127.0.0.1:{taken.getsockname()[1]}/x")
    with pytest.raises(DatabaseUnavailableError, match="does not exist"):
        await Store.open(postgres_url + "_absent")


async def test_commits_reads_and_deletes_at_once(store: Store, url: str) -> None:
    sites = await add(store, 40)
    contexts = await store.sites.contexts(sites)
    batches = [Batch([record(contexts[s], float(n), b"%d" % n, changed=True) for s in sites]) for n in range(8)]
    results, *_ = await asyncio.gather(
        asyncio.gather(*(store.commit(batch) for batch in batches)),
        asyncio.gather(*(store.sites.delete(site, 1.0) for site in sites[:10])),
        asyncio.gather(*(store.changes.page() for _ in range(10))),
        asyncio.gather(*(store.sites.page() for _ in range(10))),
    )
    assert len(results) == 8
    assert sum(len(result.changes) + len(result.skipped) for result in results) == 8 * 40
    assert await query(url, "SELECT DISTINCT polls, changes FROM site_state") == [(8, 8)]
    assert await query(url, "SELECT count(*) FROM poll") == [(8 * 30,)]


async def test_in_memory(settings: StorageSettings) -> None:
    store = await Store.open("sqlite+aiosqlite:///:memory:", settings=settings)
    sites = await add(store, 2)
    await asyncio.gather(*(store.sites.page() for _ in range(5)), poll_all(store, sites, 10.0, b"a", changed=True))
    assert len((await store.changes.page()).items) == 2
    await store.check()
    await store.close()


@pytest.mark.parametrize(
    "values",
    [
        {"keep_contents": 1},
        {"content_cap_bytes": -1},
        {"poll_retention_seconds": 0.0},
        {"content_retention_seconds": 0.0},
        {"change_retention_seconds": -1.0},
        {"zstd_level": 0},
        {"busy_timeout_seconds": -1.0},
        {"connect_timeout_seconds": 0.0},
        {"statement_timeout_seconds": 0.0},
    ],
)
def test_settings_name_what_is_wrong(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        StorageSettings(**values)
    assert [caught.value.field] == list(values)
