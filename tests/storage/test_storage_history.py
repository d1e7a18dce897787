"""Reading what was recorded, and throwing it away."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from pollerd.errors import InvalidValueError, NotFoundError
from pollerd.model import OutcomeKind
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.encoding import Order
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, PruneResult
from tests.storage.samples import add, poll_all, query, record


async def test_polls_newest_first_in_pages(store: Store) -> None:
    sites = await add(store, 2)
    for n in range(5):
        await poll_all(store, sites, 10.0 + n)
    first = await store.history.list_polls(sites[0], limit=3)
    second = await store.history.list_polls(sites[0], limit=3, cursor=first.next_cursor)
    assert [p.at for p in first.items + second.items] == [14.0, 13.0, 12.0, 11.0, 10.0]
    assert second.next_cursor is None
    assert {p.site_id for p in first.items} == {sites[0]}


async def test_changes_oldest_first_and_onwards(store: Store) -> None:
    sites = await add(store, 2)
    page = await store.changes.page(order=Order.OLDEST)
    assert page.items == []
    await poll_all(store, sites, 10.0, b"a", changed=True)
    await poll_all(store, sites, 20.0, b"b", changed=True)
    seen: list[tuple[int, float]] = []
    for more in (True, False):
        page = await store.changes.page(limit=3, cursor=page.next_cursor, order=Order.OLDEST)
        seen += [(c.site_id, c.detected_at) for c in page.items]
        assert (page.next_cursor is not None) is more
    assert seen == [(s, at) for at in (10.0, 20.0) for s in sites]
    await poll_all(store, sites[1:], 30.0, b"c", changed=True)
    page = await store.changes.page(ChangeFilter(since=25.0))
    assert [c.detected_at for c in page.items] == [30.0]
    assert [c.detected_at for c in (await store.changes.page(ChangeFilter(since=20.0, site_id=sites[0]))).items] == [
        20.0
    ]
    assert await store.changes.get(page.items[0].id or 0) == page.items[0]


async def test_a_bad_cursor_or_limit_is_named(store: Store) -> None:
    sites = await add(store, 2)
    site = sites[0]
    await poll_all(store, sites, 10.0, b"a", changed=True)
    foreign = (await store.changes.page(limit=1)).next_cursor
    assert foreign is not None
    for cursor in ("", "x", "é", "c1", "cA==", "YzEx=", "Yy0x", "Yzk5OTk5OTk5OTk5OTk5OTk5OTk5", "\0"):
        with pytest.raises(InvalidValueError, match="cursor"):
            await store.changes.page(cursor=cursor)
    with pytest.raises(InvalidValueError, match="cursor"):
        await store.history.list_polls(site, cursor=foreign)
    for limit in (0, -1, 1001):
        with pytest.raises(InvalidValueError, match="limit"):
            await store.changes.page(limit=limit)


async def test_what_is_not_there(store: Store) -> None:
    for call in (store.changes.get(1), store.contents.get(1)):
        with pytest.raises(NotFoundError):
            await call
    assert (await store.history.list_polls(7)).items == []


async def test_recent_polls_replay_in_time_order(store: Store) -> None:
    sites = await add(store, 2)
    contexts = await store.sites.contexts(sites)
    for n in range(4):
        records = [record(contexts[s], 10.0 * n + s, elapsed=None if n == 0 else 10.0) for s in sites]
        failed = record(contexts[sites[0]], 10.0 * n + 5)
        failed = replace(failed, poll=replace(failed.poll, outcome=OutcomeKind.TIMEOUT))
        dated = record(contexts[sites[1]], 10.0 * n + 6, changed=True, age=2.0, count=3)
        await store.commit(Batch([*records, failed, dated]))
    pieces = [columns async for columns in store.history.recent_polls(per_site=4, piece=3)]
    at = np.concatenate([p.at for p in pieces])
    site_id = np.concatenate([p.site_id for p in pieces])
    count = np.concatenate([p.count for p in pieces])
    assert [len(p.at) for p in pieces] == [3, 3, 2]
    assert np.all(np.diff(at) > 0)
    assert (site_id == sites[0]).sum() == (site_id == sites[1]).sum() == 4
    assert at[site_id == sites[0]].tolist() == [1.0, 11.0, 21.0, 31.0]
    assert count[site_id == sites[1]].tolist() == [-1, 3, -1, 3]
    first = pieces[0]
    assert (first.elapsed[0], math.isnan(first.age[0]), first.changed[0]) == (np.inf, True, False)


async def test_old_polls_go(sqlite_url: str) -> None:
    """On PostgreSQL they go by whole days: `test_storage_poll_days`."""
    store = await Store.open(sqlite_url, settings=StorageSettings(poll_retention_seconds=100.0))
    sites = await add(store, 2)
    for at in (10.0, 60.0, 110.0):
        await poll_all(store, sites, at)
    assert await store.prune(160.0) == PruneResult(polls=2)
    assert [p.at for p in (await store.history.list_polls(sites[0])).items] == [110.0, 60.0]
    assert await store.prune(160.0) == PruneResult()
    assert (await store.sites.get(sites[0])).polls == 3
    await store.close()


async def test_contents_over_the_cap_go_oldest_first_but_never_the_current(url: str) -> None:
    store = await Store.open(url, settings=StorageSettings(content_cap_bytes=100))
    sites = await add(store, 2)
    noise = np.random.default_rng(1).bytes(400)
    for n in range(4):
        await poll_all(store, sites[: 1 if n else 2], 10.0 + n, noise[n * 100 : n * 100 + 60])
    pruned = await store.prune(20.0)
    assert pruned.contents == 3
    assert pruned.content_bytes > 180
    contexts = await store.sites.contexts(sites)
    kept = await query(url, "SELECT id FROM content ORDER BY id")
    assert kept == sorted((m.content_id,) for m in contexts.values())
    assert (await store.prune(20.0)).contents == 0
    await store.close()


async def test_delays_are_those_of_changes_whose_page_named_a_date(store: Store) -> None:
    sites = await add(store, 3)
    assert [len(column) for column in await store.history.dated_delays(100)] == [0, 0]
    await poll_all(store, sites, 10.0, b"a")
    contexts = await store.sites.contexts(sites)
    first, second, third = sites
    await store.commit(
        Batch(
            [
                record(contexts[first], 20.0, b"b", changed=True, age=4.0),
                record(contexts[second], 20.0, b"b", changed=True),
                record(contexts[third], 20.0, age=9.0),
            ]
        )
    )
    contexts = await store.sites.contexts(sites)
    await store.commit(Batch([record(contexts[one], 30.0, b"c", changed=True, age=6.0) for one in (first, third)]))
    found, delays = await store.history.dated_delays(100)
    assert sorted(zip(found.tolist(), delays.tolist(), strict=True)) == [(first, 4.0), (first, 6.0), (third, 6.0)]
    assert sorted((await store.history.dated_delays(2))[0].tolist()) == [first, third], "the two newest changes"


async def test_a_change_is_detected_when_the_answer_is_there(store: Store) -> None:
    """A page may change while it is asked for."""
    (site,) = await add(store, 1)
    context = (await store.sites.contexts([site]))[site]
    slow = record(context, 10.0, b"new", changed=True, duration=7.0, age=2.0)
    await store.commit(Batch([slow]))
    (change,) = (await store.changes.page()).items
    assert change.detected_at == 17.0
    sites, ages = await store.history.dated_delays(10)
    assert (sites.tolist(), ages.tolist()) == ([site], [2.0]), "the poll of the change is found by its own time"
