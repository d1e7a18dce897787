"""What the daemon reads at its start."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from pollerd.errors import SchemaError
from pollerd.model import STATES, SiteState
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, RunInfo
from tests.storage.samples import add, hosts_of, learned_of, poll_all, record, schedule_of


async def test_an_empty_database(store: Store) -> None:
    assert [rows async for rows in store.sites.schedule.all()] == []
    assert await hosts_of(store) == []
    assert [piece async for piece in store.sites.schedule.learned("whittle")] == []
    assert await store.allocation.load() is None
    assert (await store.sites.contexts([1]), await store.contents.load([1])) == ({}, {})


async def test_the_schedule_has_what_polls_left(store: Store) -> None:
    sites = await add(store, 3, min_interval=30.0, weight=2.0)
    contexts = await store.sites.contexts(sites)
    failed = replace(
        record(contexts[sites[0]], 50.0),
        state=SiteState.BACKING_OFF,
        not_before=80.0,
        failures=2,
        last_seen_at=None,
    )
    await store.commit(Batch([failed, record(contexts[sites[1]], 60.0, b"x", changed=True)]))
    await store.sites.update(sites[2], {"paused": True, "max_interval": 90.0}, 1.0)
    rows = await schedule_of(store)
    assert rows.site_id.tolist() == sites
    assert sorted(await store.sites.contexts(rows.site_id[1:].tolist())) == sites[1:]
    assert [STATES[s] for s in rows.state] == [SiteState.BACKING_OFF, SiteState.ACTIVE, SiteState.ACTIVE]
    assert rows.paused.tolist() == [False, False, True]
    np.testing.assert_array_equal(rows.last_poll_at, [50.0, 60.0, np.nan])
    np.testing.assert_array_equal(rows.last_seen_at, [np.nan, 60.0, np.nan])
    np.testing.assert_array_equal(rows.not_before, [80.0, np.nan, np.nan])
    np.testing.assert_array_equal(rows.max_interval, [np.nan, np.nan, 90.0])
    np.testing.assert_array_equal(rows.half_life, [np.nan] * 3)
    assert (rows.failures.tolist(), rows.polls.tolist(), rows.changes.tolist()) == ([2, 0, 0], [1, 1, 0], [0, 1, 0])
    assert (rows.weight.tolist(), rows.min_interval.tolist()) == ([2.0] * 3, [30.0] * 3)


async def test_all_comes_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pollerd.storage.site_rows.PIECE", 3)
    sites = await add(store, 8, hosts=4)
    contexts = await store.sites.contexts(sites)
    records = [record(contexts[s], 1.0, learned=bytes([s])) for s in sites]
    await store.commit(Batch(records, allocator="whittle"))
    pieces = [rows async for rows, _ in store.sites.schedule.all()]
    assert [len(rows) for rows in pieces] == [3, 3, 2]
    rows = await schedule_of(store)
    assert rows.site_id.tolist() == sites
    assert rows.weight.dtype == np.float64
    assert rows.paused.dtype == np.bool_
    assert [len(hosts) async for hosts in store.sites.hosts.all()] == [3, 1]
    ids, states = await learned_of(store, "whittle")
    assert (ids.tolist(), states.tolist()) == (sites, [[s] for s in sites])


async def test_runs_tell_a_clean_stop_from_a_crash(url: str, settings: StorageSettings) -> None:
    first = await Store.open(url, settings=settings)
    assert await first.runs.start("1", 1.0) == RunInfo(1, True, None)
    await poll_all(first, await add(first), 10.0)
    await first.close()
    second = await Store.open(url, settings=settings)
    assert await second.runs.start("2", 20.0) == RunInfo(2, False, None)
    await second.runs.end(30.0)
    await second.close()
    third = await Store.open(url, settings=settings)
    assert await third.runs.start("2", 40.0) == RunInfo(3, True, 30.0)
    await third.close()
    await third.close()


async def test_hosts_without_sites_go_at_the_start(store: Store) -> None:
    sites = await add(store, 2)
    await store.sites.delete(sites[0], 2.0)
    assert [h.name for h in await hosts_of(store)] == ["h0:80", "h1:80"]
    await store.runs.start("1", 3.0)
    assert [h.name for h in await hosts_of(store)] == ["h1:80"]


async def test_learned_states_of_two_widths_are_not_mixed(store: Store) -> None:
    sites = await add(store, 2)
    contexts = await store.sites.contexts(sites)
    records = [record(contexts[s], 1.0, learned=b"x" * s) for s in sites]
    await store.commit(Batch(records, allocator="whittle"))
    with pytest.raises(SchemaError, match="width"):
        await learned_of(store, "whittle")
