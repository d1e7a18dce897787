"""The daemon's lock on PostgreSQL: whoever commits holds it, whatever became of connections."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Connection
from sqlalchemy.engine import make_url

from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import add, query, record, retry_while_unavailable
from tests.support.origin import until_found
from tests.support.postgres import execute
from tests.support.wire import relayed

_MINE = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
_HOLDERS = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity USING (pid) WHERE l.locktype = 'advisory' AND granted"


def held(connection: Connection) -> int:
    return int(connection.exec_driver_sql(_MINE).scalar_one())


def cut(url: str) -> None:
    execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", make_url(url).database)


async def a_batch(store: Store, sites: list[int], at: float) -> Batch:
    contexts = await retry_while_unavailable(lambda: store.sites.contexts(sites))
    return Batch([record(contexts[s], at, b"%f" % at, changed=True) for s in sites])


async def test_every_transaction_that_writes_is_the_holders(postgres_url: str) -> None:
    store = await Store.open(postgres_url)
    for _ in range(3):
        for _ in range(2):
            assert await retry_while_unavailable(lambda: store.database.write(held)) == 1
        await asyncio.to_thread(cut, postgres_url)
        await asyncio.sleep(0.1)
    assert await retry_while_unavailable(lambda: store.database.read(held)) == 0
    await store.close()

    async def is_free() -> bool:  # once the server has ended the session
        return await query(postgres_url, _HOLDERS + " AND datname = current_database()") == [(0,)]

    await until_found(is_free)


async def test_a_transaction_dies_with_the_lock(postgres_url: str) -> None:
    """The session is ended in the middle of a commit, and another daemon is there at once."""
    first = await Store.open(postgres_url, settings=StorageSettings(busy_timeout_seconds=2.0))
    await first.runs.start("first", 1.0)
    sites = await add(first, 2)

    def cut_in_the_middle(connection: Connection) -> None:
        connection.exec_driver_sql("UPDATE site SET weight = 7")
        cut(postgres_url)
        connection.exec_driver_sql("UPDATE site SET weight = 8")

    with pytest.raises(DatabaseUnavailableError):
        await first.database.write(cut_in_the_middle)
    batch = await a_batch(first, sites, 20.0)
    second = await Store.open(postgres_url)
    await second.runs.start("second", 2.0)
    assert await query(postgres_url, "SELECT max(weight) FROM site") == [(None,)]
    with pytest.raises(DatabaseInUseError):
        await retry_while_unavailable(lambda: first.commit(batch))
    await second.close()
    with pytest.raises(DatabaseInUseError, match="took over"):
        await retry_while_unavailable(lambda: first.commit(batch))
    await first.close()


async def test_a_session_that_a_network_swallowed_is_ended_by_the_next(postgres_url: str) -> None:
    """The server still holds the old session, and its lock: it is ours, nobody else's."""
    async with relayed(postgres_url) as (through, wire):
        store = await Store.open(through)
        await store.runs.start("first", 1.0)
        sites = await add(store, 2)
        batch = await a_batch(store, sites, 20.0)
        wire.swallow()
        await asyncio.sleep(0.1)
        assert await query(postgres_url, _HOLDERS + " AND datname = current_database()") == [(1,)]
        await retry_while_unavailable(lambda: store.commit(batch))
        assert await query(postgres_url, _HOLDERS + " AND datname = current_database()") == [(1,)]
        assert await store.database.write(held) == 1
        with pytest.raises(DatabaseInUseError):
            await Store.open(postgres_url)
        await store.close()
    assert await query(postgres_url, "SELECT count(*) FROM poll") == [(2,)]
