"""Which changes were seen: ranges that never touch or overlap, and what of it is a question to the database."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.storage.changes import ChangeFilter, closed, merged, without
from pollerd.storage.store import Store
from tests.storage.samples import add, poll_all

IDS = st.integers(1, 40)
RANGES = st.lists(st.tuples(IDS, IDS).map(lambda pair: (min(pair), max(pair))), max_size=12)


def ids(ranges: list[tuple[int, int]]) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}


@given(RANGES, RANGES)
def test_ranges_are_sets_of_ids(some: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    before = merged([], some)
    assert ids(before) == ids(some)
    assert ids(merged(before, more)) == ids(some) | ids(more)
    assert ids(without(before, more)) == ids(some) - ids(more)
    for one in (before, merged(before, more), merged([], without(before, more))):
        assert all(first <= last for first, last in one)
        assert all(earlier[1] + 1 < later[0] for earlier, later in itertools.pairwise(one))


@given(RANGES, st.integers(1, 5))
def test_too_many_ranges_close_from_the_oldest(some: list[tuple[int, int]], most: int) -> None:
    before = merged([], some)
    after = closed(before, most)
    assert len(after) <= most or not before
    assert ids(before) <= ids(after)
    assert after[-1:] == before[-1:] or len(before) > most


@pytest.mark.parametrize("seen", [[], [(1, 3)], [(2, 2), (4, 5)], [(1, 1), (3, 3), (5, 9)], [(1, 99)]])
async def test_what_was_not_seen_is_listed_and_counted(store: Store, seen: list[tuple[int, int]]) -> None:
    sites = await add(store)
    for n in range(7):  # the first reading is no change
        await poll_all(store, sites, float(n), f"text {n}".encode(), changed=n > 0)
    await store.changes.put_seen("user:1", seen)
    await store.changes.put_seen("user:2", [(1, 99)])
    left = sorted(set(range(1, 7)) - ids(seen), reverse=True)
    listed = (await store.changes.page(ChangeFilter(unseen_by="user:1"))).items
    assert [one.id for one in listed] == left
    assert await store.changes.count_unseen("user:1", 100) == len(left)
    assert await store.changes.count_unseen("user:1", 2) == min(len(left), 2)
    await store.changes.put_seen("user:1", [(1, 99)], seen=False)
    assert await store.changes.count_unseen("user:1", 100) == 6
