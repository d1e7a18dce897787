"""Subscriptions at hubs in the database."""

from __future__ import annotations

from dataclasses import replace

from pollerd.storage.hubs import HubState, HubSubscription
from pollerd.storage.settings import StorageSettings
from pollerd.storage.signals import SignalSourceSpec
from pollerd.storage.store import Store

KEYS = StorageSettings(secret_key="q" * 43 + "=")
HUBS = ("https://hub.invalid/", "https://other.invalid/")
TOPIC = "https://a.invalid/feed"


async def opened(url: str, settings: StorageSettings = KEYS) -> Store:
    return await Store.open(url, settings=settings)


async def with_source(store: Store) -> int:
    return (await store.signals.add(SignalSourceSpec("push", name="cms", hosts="any"), 1.0)).id


async def only(store: Store) -> HubSubscription:
    (one,) = await store.hubs.all()
    return one


async def test_an_offer_is_noted_once_and_another_one_leaves_the_first(url: str) -> None:
    store = await opened(url)
    source = await with_source(store)
    assert await store.hubs.offered(source, TOPIC, HUBS, 2.0)
    first = await only(store)
    assert (first.state, first.hub, first.topic, first.next_at) == (HubState.PENDING, HUBS[0], TOPIC, 2.0)
    assert not await store.hubs.offered(source, TOPIC, HUBS[::-1], 3.0), "it is still one of those that are offered"
    assert await store.hubs.offered(source, f"{TOPIC}?2", HUBS, 4.0)
    left, second = await store.hubs.all()
    assert (left.id, left.state, left.source_id, left.next_at) == (first.id, HubState.LEAVING, None, 4.0)
    assert second.callback != left.callback
    assert await store.hubs.secret_of(second.id) != await store.hubs.secret_of(left.id)
    assert await store.hubs.at_callback(second.callback) == second == await store.hubs.of_source(source)
    assert await store.hubs.withdrawn(source, 5.0)
    assert not await store.hubs.withdrawn(source, 5.0)
    assert not await store.hubs.offered(99, TOPIC, HUBS, 6.0)
    await store.close()


async def test_what_the_hub_verified_is_not_undone_by_its_answer(url: str) -> None:
    store = await opened(url)
    await store.hubs.offered(await with_source(store), TOPIC, HUBS, 2.0)
    one = await only(store)
    assert await store.hubs.ask(one.id, 3.0, 600.0)
    await store.hubs.answered(one.id, "asked for", 900.0)
    asked = await only(store)
    assert (asked.attempts, asked.asked_at, asked.next_at, asked.last_detail) == (1, 3.0, 900.0, "asked for")
    assert await store.hubs.verified(one.id, 4.0, 100.0, 79.0)
    await store.hubs.answered(one.id, "late", 9_000.0)
    active = await only(store)
    assert (active.state, active.lease_ends_at, active.next_at) == (HubState.ACTIVE, 104.0, 79.0)
    assert active.last_detail == "the hub verified it"
    assert (active.is_alive(103.9), active.is_alive(104.0)) == (True, False)
    for now in (10.0, 12.0, 20.0):
        await store.hubs.received(one.id, now)
    alive = await only(store)
    assert (alive.received, alive.longest_gap, alive.silent_at) == (3, 8.0, 44.0)
    assert (alive.is_alive(43.9), alive.is_alive(44.0)) == (True, False)
    await store.hubs.expire(103.0)
    assert (await only(store)).state is HubState.ACTIVE
    await store.hubs.expire(104.0)
    assert (await only(store)).state is HubState.PENDING
    assert await store.hubs.denied(one.id, "a" * 10 + "\0", 500.0)
    assert (await only(store)).state is HubState.DENIED
    await store.hubs.delete(one.id)
    assert not await store.hubs.ask(one.id, 5.0, 6.0)
    await store.close()


async def test_a_source_that_is_gone_leaves_its_hub_and_another_key_begins_anew(url: str) -> None:
    store = await opened(url)
    source = await with_source(store)
    await store.hubs.offered(source, TOPIC, HUBS, 2.0)
    await store.hubs.delete_unreadable()
    await store.signals.delete(source)
    assert (await only(store)).source_id is None
    await store.hubs.leave_gone(3.0)
    left = await only(store)
    assert (left.state, left.next_at) == (HubState.LEAVING, 3.0)
    await store.close()
    store = await opened(url, replace(KEYS, secret_key="w" * 43 + "="))
    assert await store.hubs.secret_of(left.id) is None
    await store.hubs.delete_unreadable()
    assert await store.hubs.all() == []
    await store.close()
