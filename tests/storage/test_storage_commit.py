"""The group commit: whole or not at all, once, and what follows from each poll."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pollerd.errors import DatabaseInUseError, InvalidValueError
from pollerd.model import OutcomeKind, Redirect, SiteState, Validators
from pollerd.storage.encoding import Order
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import AllocationRow, Batch, HostUpdate, StoredRobots
from tests.storage.samples import add, hosts_of, learned_of, poll_all, query, record


async def test_a_poll_comes_back_as_it_was(store: Store) -> None:
    [site] = await add(store)
    context = (await store.sites.contexts([site]))[site]
    given = record(context, 20.5, b"one", age=3.0, count=2, redirects=(Redirect(301, "http://x/\udcff"),), detail="ok")
    await store.commit(Batch([given]))
    [poll] = (await store.history.list_polls(site)).items
    assert replace(poll, id=None) == given.poll


async def test_memory_comes_back_as_it_was(store: Store) -> None:
    [site] = await add(store)
    context = (await store.sites.contexts([site]))[site]
    assert (context.url, context.baseline.fingerprint, context.content_id) == ("http://h0/0", None, None)
    given = record(context, 20.0, b"one")
    given = replace(given, context=replace(given.context, redirect_url="http://new/", redirect_count=2))
    await store.commit(Batch([given]))
    found = (await store.sites.contexts([site]))[site]
    assert found.content_id is not None
    assert replace(found, content_id=None) == replace(given.context, last_outcome=OutcomeKind.UNCHANGED)


async def test_a_header_of_any_bytes_comes_back_verbatim(store: Store) -> None:
    [site] = await add(store)
    context = (await store.sites.contexts([site]))[site]
    odd = Validators(b'"\xff\xe9\x00\xc3"'.decode("utf-8", "surrogateescape"), "héllo")
    given = record(context, 1.0)
    given = replace(given, context=replace(given.context, validators=odd, content_type="text/\udcff\0"))
    await store.commit(Batch([replace(given, poll=replace(given.poll, detail="nul \0, lone \ud800"))]))
    found = (await store.sites.contexts([site]))[site]
    assert found.validators == odd
    assert found.content_type == "text/?\ufffd"
    assert (await store.history.list_polls(site)).items[0].detail == "nul \ufffd, lone ?"


async def test_a_change_lies_between_two_contents(store: Store) -> None:
    [site] = await add(store)
    await poll_all(store, [site], 10.0, b"one")
    await poll_all(store, [site], 20.0, b"two", changed=True)
    await poll_all(store, [site], 30.0, b"one", changed=True)
    first, second = (await store.changes.page(order=Order.OLDEST)).items
    contents = [first.before_content_id, first.after_content_id, second.before_content_id, second.after_content_id]
    bodies = await store.contents.load([c for c in contents if c is not None])
    assert [bodies[c or 0] for c in contents] == [b"one", b"two", b"two", b"one"]
    assert first.before_content_id == second.after_content_id
    assert (first.url, first.detected_at, first.previous_poll_at, first.summary) == (
        "http://h0/0",
        20.0,
        10.0,
        "at 20.0",
    )
    assert (await store.sites.get(site)).changes == 2


async def test_one_site_twice_in_a_batch(store: Store) -> None:
    [site] = await add(store)
    context = (await store.sites.contexts([site]))[site]
    records = [
        record(context, 10.0, b"one"),
        record(context, 20.0, b"two", changed=True),
        record(context, 30.0, b"three", changed=True),
    ]
    result = await store.commit(Batch(records))
    assert [(c.site_id, c.record) for c in result.changes] == [(site, 1), (site, 2)]
    first, second = (await store.changes.page(order=Order.OLDEST)).items
    assert [c.id for c in result.changes] == [first.id, second.id]
    assert first.after_content_id == second.before_content_id is not None
    found = await store.sites.get(site)
    assert (found.polls, found.changes, found.last_poll_at) == (3, 2, 30.0)
    assert (await store.sites.contexts([site]))[site].content_id == second.after_content_id


async def test_a_batch_given_twice_counts_once(store: Store, url: str) -> None:
    sites = await add(store, 3)
    await poll_all(store, sites, 10.0, b"one")
    contexts = await store.sites.contexts(sites)
    batch = Batch([record(contexts[s], 20.0, b"two", changed=s != sites[1]) for s in sites])
    result = await store.commit(batch)
    assert [c.record for c in result.changes] == [0, 2]
    assert await store.commit(batch) == result
    assert await query(url, "SELECT count(*), max(id) FROM poll") == [(6, 6)]
    assert [(await store.sites.get(s)).polls for s in sites] == [2, 2, 2]


async def test_the_current_content_is_never_pruned(url: str) -> None:
    """A clock that went back makes the current content the oldest one."""
    settings = StorageSettings(keep_contents=2, content_retention_seconds=1.0, content_cap_bytes=0)
    store = await Store.open(url, settings=settings)
    [site] = await add(store)
    for at, content in ((100.0, b"a"), (101.0, b"b"), (102.0, b"c"), (5.0, b"d")):
        await poll_all(store, [site], at, content)
    assert (await store.prune(1000.0)).contents == 2
    context = (await store.sites.contexts([site]))[site]
    assert (await store.contents.get(context.content_id or 0)).body == b"d"
    await store.close()


async def test_a_site_deleted_meanwhile_is_skipped(store: Store, url: str) -> None:
    sites = await add(store, 2)
    contexts = await store.sites.contexts(sites)
    await store.sites.delete(sites[0], 15.0)
    batch = Batch([record(contexts[s], 20.0, b"x", changed=True, learned=b"l") for s in sites], allocator="whittle")
    result = await store.commit(batch)
    assert result.skipped == (sites[0],)
    assert [(c.site_id, c.record) for c in result.changes] == [(sites[1], 1)]
    for table in ("poll", "content", "change", "learned", "site_state"):
        assert await query(url, f"SELECT DISTINCT site_id FROM {table}") == [(sites[1],)]


async def test_a_poll_of_the_old_url_is_skipped(store: Store) -> None:
    [site] = await add(store)
    context = (await store.sites.contexts([site]))[site]
    await store.sites.update(site, {"url": "http://new/", "host": "new:80"}, 5.0)
    assert (await store.commit(Batch([record(context, 10.0, b"old")]))).skipped == (site,)
    assert (await store.sites.contexts([site]))[site].baseline.fingerprint is None


async def test_hosts_and_learned_state_go_with_the_batch(store: Store) -> None:
    sites = await add(store, 2)
    contexts = await store.sites.contexts(sites)
    [h0, h1] = await hosts_of(store)
    await store.allocation.save(AllocationRow("whittle", "changes", 5.0))
    robots = StoredRobots("rules", 9.0, b"User-agent: *\nDisallow: /x", "fetched", 1.5)
    updates = [HostUpdate(h0.id, 10.0, 20.0, 2, robots), HostUpdate(h1.id, 11.0)]
    records = [record(contexts[s], 10.0, learned=bytes([s, 7])) for s in sites]
    await store.commit(Batch(records, updates, "whittle", b"shared"))
    assert (await store.allocation.load()) == AllocationRow("whittle", "changes", 5.0, b"shared", learned_through=2)
    ids, states = await learned_of(store, "whittle")
    assert (ids.tolist(), states.tolist()) == (sites, [[s, 7] for s in sites])
    assert (await learned_of(store, "uniform"))[1].shape == (0, 0)
    await store.commit(Batch(hosts=[HostUpdate(h0.id, 30.0)]))
    [h0, h1] = await hosts_of(store)
    assert (h0.last_start_at, h0.paused_until, h0.throttles, h0.robots) == (30.0, None, 0, robots)
    assert (h1.last_start_at, h1.robots) == (11.0, None)


async def test_shared_state_of_another_allocator_is_not_kept(store: Store) -> None:
    await store.allocation.save(AllocationRow("htraa", "changes", 5.0, b"tree"))
    await store.commit(Batch(allocator="whittle", shared_state=b"late"))
    assert await store.allocation.load() == AllocationRow("htraa", "changes", 5.0, b"tree", 0)


async def test_switching_allocators_replaces_what_was_learned(store: Store) -> None:
    sites = await add(store, 3)
    contexts = await store.sites.contexts(sites)
    await store.commit(Batch([record(contexts[s], 1.0, learned=b"old") for s in sites], allocator="whittle"))
    await store.allocation.replace_learned(
        AllocationRow("htraa", "changes", 2.0, b"t"), [(sites[1], b"12"), (10**6, b"34")]
    )
    ids, states = await learned_of(store, "htraa")
    assert (ids.tolist(), states.tobytes()) == ([sites[1]], b"12")
    assert (await learned_of(store, "whittle"))[0].size == 0


async def test_a_daemon_that_was_replaced_cannot_write(store: Store, url: str) -> None:
    [site] = await add(store)
    await store.runs.start("1", 1.0)
    context = (await store.sites.contexts([site]))[site]
    await query(url, "INSERT INTO daemon_run (started_at, version) VALUES (2.0, '1')")
    with pytest.raises(DatabaseInUseError):
        await store.commit(Batch([record(context, 3.0)]))
    assert (await store.history.list_polls(site)).items == []


async def test_a_batch_that_contradicts_itself_is_refused(store: Store) -> None:
    [site] = await add(store)
    good = record((await store.sites.contexts([site]))[site], 1.0)
    bad = [
        replace(good, learned=b"x"),
        replace(good, state=SiteState.PAUSED),
        replace(good, content=b"no fingerprint"),
        replace(good, poll=replace(good.poll, site_id=site + 1)),
    ]
    for one in bad:
        with pytest.raises(InvalidValueError):
            await store.commit(Batch([one]))
    assert (await store.sites.get(site)).polls == 0


async def test_a_bug_writes_nothing(store: Store) -> None:
    sites = await add(store, 2)
    contexts = await store.sites.contexts(sites)
    bad = record(contexts[sites[1]], 2.0)
    bad = replace(bad, poll=replace(bad.poll, duration=None))
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await store.commit(Batch([record(contexts[sites[0]], 2.0, b"x"), bad]))
    assert (await store.history.list_polls(sites[0])).items == []
    assert (await store.sites.contexts(sites))[sites[0]].content_id is None
