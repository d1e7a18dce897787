"""Changes that several daemons commit into one database at once: every reader gets each once, in order."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from pollerd.storage.store import Store
from tests.api.event_node import WRITERS, Reader
from tests.storage.samples import add, query
from tests.support.postgres import postgres_database
from tests.support.process import environment

COMMITS = int(os.environ.get("POLLERD_TEST_COMMITS", "60"))
"""Of each writer; there are two processes with `WRITERS`."""


@pytest.fixture
def url() -> Iterator[str]:
    with postgres_database() as url:
        yield url


@asynccontextmanager
async def idle_transaction(url: str) -> AsyncIterator[None]:
    """A foreign transaction that has a number of its own and goes on."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        await connection.execute("BEGIN; CREATE TABLE foreign_one (id int); SELECT txid_current()")
        yield
        await connection.execute("ROLLBACK")
    finally:
        await connection.close()


async def node(url: str, name: str) -> asyncio.subprocess.Process:
    arguments = ("-m", "tests.api.event_node", url, name, str(COMMITS))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env=environment(),
        limit=2**24,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def wander(stores: list[Store], last: asyncio.Future[int]) -> list[int]:
    """What a reader sees that goes on at another node after each reading, with the last id that it saw."""
    readers, seen, position, turn = [Reader(store) for store in stores], list[int](), 0, 0
    while not last.done() or position < last.result():
        position = await readers[turn % 2].read(position, seen)
        turn += 1
        await asyncio.sleep(0.01)
    return seen


async def said(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 300)
    assert line, "a node ended"
    return line.decode().strip()


async def test_no_event_is_missed_none_told_twice_and_all_in_order(url: str) -> None:
    stores = [await Store.open(url, several_writers=True, writer=name) for name in ("reader 1", "reader 2")]
    await add(stores[0], 2 * WRITERS)
    hearing = [asyncio.create_task(store.listen_for_changes()) for store in stores]
    last: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    wandering = asyncio.create_task(wander(stores, last))
    async with idle_transaction(url):
        nodes = [await node(url, name) for name in ("a", "b")]
        assert [await said(one) for one in nodes] == ["done", "done"]
        newest = await stores[0].changes.last_id()
        last.set_result(newest)
        for one in nodes:
            assert one.stdin is not None
            one.stdin.write(f"{newest}\n".encode())
        found = [json.loads(await said(one)) for one in nodes]
        seen_by_wanderer = await asyncio.wait_for(wandering, 60)
    every = sorted(found[0]["written"] + found[1]["written"])
    assert len(every) == len(set(every)) == 2 * WRITERS * sum(1 + n % 3 for n in range(COMMITS))
    assert [one[kind] for one in found for kind in ("seen", "paged")] == [every] * 4
    assert seen_by_wanderer == every
    # They did come out of order by the numbers of transactions, so there was something to put in order.
    disordered = await query(
        url,
        "SELECT count(*) FROM (SELECT xmin::text::bigint AS x, lag(xmin::text::bigint) OVER (ORDER BY id) AS before"
        " FROM change) AS pairs WHERE x < before",
    )
    assert disordered[0][0] > 0
    assert [await one.wait() for one in nodes] == [0, 0]
    for task in hearing:
        task.cancel()
    for store in stores:
        await store.close()
