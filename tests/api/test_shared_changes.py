"""One reading of the changes for all streams: each is read once, and nobody misses one."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from pollerd.api.events import MAX_EVENTS, EventsRead, SharedChanges
from pollerd.model import Change, Media
from pollerd.storage.changes import ChangeFilter, ChangesRead, ChangeStore


class History:
    """A database of changes that counts how often it is read."""

    def __init__(self, count: int) -> None:
        self.count, self.reads = count, 0

    @property
    def newest(self) -> int:
        return self.count

    async def last_id(self) -> int:
        return self.count

    async def after(self, wanted: ChangeFilter, after: int, limit: int) -> ChangesRead:
        self.reads += 1
        found = [n for n in range(after + 1, self.count + 1) if wanted.site_id in (None, n % 3)]
        items = [Change(n, n % 3, f"https://a.example/{n}", float(n), None, Media.TEXT, f"change {n}") for n in found]
        whole = len(items) <= limit
        return ChangesRead(items[:limit], self.count if whole else (items[limit - 1].id or 0), whole)


def ids(read: EventsRead) -> list[int]:
    return [json.loads(event.decode().split("data: ", 1)[1].split("\n", 1)[0])["id"] for event in read.events]


async def after(shared: SharedChanges, history: History, position: int, **wanted: Any) -> EventsRead:
    return await shared.after(cast(ChangeStore, history), ChangeFilter(**wanted), position, 100)


async def test_many_readers_are_one_reading() -> None:
    shared, history = SharedChanges(), History(10)
    assert (await after(shared, history, 10)).events == []
    history.count, history.reads = 15, 0
    for _ in range(50):
        read = await after(shared, history, 10)
        assert (ids(read), read.reached, read.whole) == ([11, 12, 13, 14, 15], 15, True)
    assert history.reads == 1


async def test_the_events_are_the_same_bytes_for_all() -> None:
    shared, history = SharedChanges(), History(0)
    await after(shared, history, 0)
    history.count = 1
    first, second = await after(shared, history, 0), await after(shared, history, 0)
    assert first.events[0] is second.events[0]


@pytest.mark.parametrize("position", [0, 9])
async def test_who_is_behind_is_served_from_the_database(position: int) -> None:
    shared, history = SharedChanges(), History(10)
    await after(shared, history, 10)
    history.count = 12
    assert ids(await after(shared, history, position)) == list(range(position + 1, 13))


async def test_filters() -> None:
    shared, history = SharedChanges(), History(0)
    await after(shared, history, 0)
    history.count = 9
    assert ids(await after(shared, history, 0, site_id=1)) == [1, 4, 7]
    assert ids(await after(shared, history, 0, since=8.0)) == [8, 9]
    assert ids(await after(shared, history, 0, selection="other")) == []
    assert ids(await after(shared, history, 0, matters=False)) == []


async def test_a_long_list_comes_in_parts_and_whole() -> None:
    shared, history = SharedChanges(), History(0)
    await after(shared, history, 0)
    history.count = 250
    seen: list[int] = []
    whole, position = False, 0
    while not whole:
        read = await after(shared, history, position)
        seen += ids(read)
        whole, position = read.whole, read.reached
    assert seen == list(range(1, 251))


async def test_after_a_time_without_readers_not_all_of_it_is_read() -> None:
    shared, history = SharedChanges(), History(0)
    await after(shared, history, 0)
    history.count, history.reads = 1_000_000, 0
    assert ids(await after(shared, history, 999_995)) == list(range(999_996, 1_000_001))
    assert history.reads <= 2
    behind = await after(shared, history, 1_000_000 - MAX_EVENTS - 1)
    assert ids(behind)[0] == 1_000_000 - MAX_EVENTS
