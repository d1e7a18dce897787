"""A commit asks PostgreSQL once for each kind of thing, however many polls it holds: counted on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pollerd.storage.changes import ChangeFilter
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, HostUpdate
from tests.storage.samples import add, record
from tests.support.wire import Wire, relayed


@asynccontextmanager
async def relayed_store(url: str) -> AsyncIterator[tuple[Store, Wire]]:
    """A store whose connections go through the wire."""
    async with relayed(url) as (through, wire):
        store = await Store.open(through)
        try:
            yield store, wire
        finally:
            await store.close()


async def waits_of(store: Store, wire: Wire, sites: list[int], at: float, content: bytes | None) -> int:
    """How often the server was waited for to commit one poll of each of the sites."""
    contexts = await store.sites.contexts(sites)
    records = [record(contexts[s], at, content, changed=content is not None, learned=b"x") for s in sites]
    batch = Batch(records, [HostUpdate(1, at)], allocator="whittle", shared_state=b"y")
    before = wire.waits
    await store.commit(batch)
    return wire.waits - before


async def test_as_many_round_trips_for_many_polls_as_for_one(postgres_url: str) -> None:
    async with relayed_store(postgres_url) as (store, wire):
        sites = await add(store, 200)
        for warm in (1.0, 2.0):  # what is asked for the first time is prepared, and prepared again where it is used
            await waits_of(store, wire, sites[:3], warm, b"%d" % warm)
            await waits_of(store, wire, sites[:3], warm + 0.5, None)
        one = await waits_of(store, wire, sites[:1], 10.0, b"ten")
        many = await waits_of(store, wire, sites, 11.0, b"eleven")
        # begin, batch and run with living sites, contents written, contents read, one for polls, states with what
        # lists sort by, times, learned, hosts, batch and changes together, shared state, commit
        assert one == many == 7
        # without contents and changes
        assert await waits_of(store, wire, sites[:1], 12.0, None) == 5
        assert await waits_of(store, wire, sites, 13.0, None) == 5


async def test_reading_takes_one_question(postgres_url: str) -> None:
    async with relayed_store(postgres_url) as (store, wire):
        sites = await add(store, 50)
        await store.sites.contexts(sites)
        before = wire.waits
        await store.sites.contexts(sites)
        assert wire.waits - before == 1


async def test_a_site_that_is_in_a_batch_more_than_once(store: Store) -> None:
    """A statement that takes all rows at once writes each once: the polls of one site still all count, in order."""
    site, other = await add(store, 2)
    contexts = await store.sites.contexts([site, other])
    batch = Batch(
        [
            record(contexts[site], 1.0, b"one", changed=True, learned=b"1"),
            record(contexts[other], 1.5, b"other", changed=True, learned=b"o"),
            record(contexts[site], 2.0, b"two", changed=True, learned=b"2"),
            record(contexts[site], 3.0, b"one", changed=True, learned=b"3"),
        ],
        [HostUpdate(1, 1.0), HostUpdate(1, 3.0)],
        allocator="whittle",
    )
    result = await store.commit(batch)
    assert [change.record for change in result.changes] == [0, 1, 2, 3]
    found = await store.sites.get(site)
    assert (found.polls, found.changes, found.last_poll_at) == (3, 3, 3.0)
    changes = (await store.changes.page(ChangeFilter(site_id=site))).items
    assert [(await store.contents.get(c.after_content_id or 0)).body for c in changes] == [
        b"one",
        b"two",
        b"one",
    ]
    (current,) = (await store.sites.contexts([site])).values()
    assert (await store.contents.get(current.content_id or 0)).body == b"one"
