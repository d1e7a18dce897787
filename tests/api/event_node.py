"""A process that commits changes as several writers at once, and follows all changes: `event_node.py URL NAME COMMITS`.

Transactions last at random, also between the drawing of numbers and the commit. It says "done" when it has committed,
then reads the number of the last change that there is from its input, and says as JSON what it committed and saw.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection

from pollerd.api.events import SharedChanges
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.encoding import Order
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import record

T = TypeVar("T")

WRITERS = 3
"""Writers of one process: a writer's own transactions come one after the other."""


def of_random_length(store: Store, rng: random.Random) -> None:
    """Makes the store's transactions last, before and after their work."""
    write = store.database.write

    async def delayed(work: Callable[[Connection], T]) -> T:
        def longer(connection: Connection) -> T:
            if rng.random() < 0.3:
                connection.exec_driver_sql(f"SELECT pg_sleep({rng.random() * 0.005})")
            result = work(connection)
            if rng.random() < 0.2:
                connection.exec_driver_sql(f"SELECT pg_sleep({rng.random() * 0.004})")
            return result

        return await write(longer)

    setattr(store.database, "write", delayed)  # noqa: B010 (a method)


async def write(store: Store, site_id: int, commits: int) -> list[int]:
    """Commits changes of the site; returns their numbers."""
    context = (await store.sites.contexts([site_id]))[site_id]
    ids: list[int] = []
    for n in range(commits):
        records = [record(context, 10.0 + n + k / 10, changed=True) for k in range(1 + n % 3)]
        ids += [change.id for change in (await store.commit(Batch(records))).changes]
    return ids


class Reader:
    """Reads as an event stream does."""

    def __init__(self, store: Store) -> None:
        self.changes, self.shared = store.changes, SharedChanges()

    async def read(self, position: int, seen: list[int]) -> int:
        """Appends the ids of the changes after a position that there are; returns the next position."""
        while True:
            found = await self.shared.after(self.changes, ChangeFilter(), position, 100)
            seen += [int(line[4:]) for one in found.events for line in one.decode().split("\n") if line[:4] == "id: "]
            position = found.reached
            if found.whole:
                return position


async def follow(store: Store, last: asyncio.Future[int]) -> list[int]:
    """Returns the ids of all changes in the order in which a stream tells them, woken by news alone."""
    reader, position, seen = Reader(store), 0, list[int]()
    while not last.done() or position < last.result():
        news = asyncio.create_task(store.changes.news(position))
        waiting: set[asyncio.Future[Any]] = {news} if last.done() else {news, last}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        position = await reader.read(position, seen)
    return seen


async def page(store: Store, last: asyncio.Future[int]) -> list[int]:
    """Returns the ids of all changes as pages with a cursor show them, the last page again and again."""
    seen: list[int] = []
    cursor: str | None = None
    while not last.done() or not seen or seen[-1] < last.result():
        found = await store.changes.page(limit=7, cursor=cursor, order=Order.OLDEST)
        seen += [change.id for change in found.items if change.id and (not seen or change.id not in seen[-7:])]
        cursor = found.next_cursor or cursor
        if found.next_cursor is None:
            await asyncio.sleep(0.02)
    return seen


async def main(url: str, name: str, commits: int) -> None:
    rng = random.Random(name)
    settings = StorageSettings(busy_timeout_seconds=60.0)
    stores = [
        await Store.open(url, settings=settings, several_writers=True, writer=f"{name}{n}") for n in range(WRITERS)
    ]
    for store in stores:
        await store.runs.start("test", 1.0)
        of_random_length(store, rng)
    sites = [rows async for piece, _ in stores[0].sites.schedule.all() for rows in piece.site_id.tolist()]
    mine = sites[:WRITERS] if name == "a" else sites[WRITERS:]
    last: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    hearing = asyncio.create_task(stores[0].listen_for_changes())
    readers: list[asyncio.Task[Any]] = [asyncio.create_task(one(stores[0], last)) for one in (follow, page)]
    jobs = [write(store, site, commits) for store, site in zip(stores, mine, strict=True)]
    written = await asyncio.gather(*jobs)
    print("done", flush=True)  # noqa: T201
    last.set_result(int(await asyncio.to_thread(sys.stdin.readline)))
    seen, paged = [await asyncio.wait_for(one, 60) for one in readers]
    hearing.cancel()
    print(json.dumps({"written": [id_ for ids in written for id_ in ids], "seen": seen, "paged": paged}), flush=True)  # noqa: T201
    for store in stores:
        await store.runs.end(2.0)
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
