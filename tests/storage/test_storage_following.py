"""Following the changes: filters, reading on from an id, and word of what was committed."""

from __future__ import annotations

import asyncio

from pollerd.model import Media
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.encoding import Order
from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import add, poll_all, record


async def changed(store: Store, site_id: int, at: float) -> None:
    await poll_all(store, [site_id], at, f"text {at}".encode(), changed=True)


async def test_filters_hold_together(store: Store) -> None:
    plain, tagged = (await add(store, 1))[0], (await add(store, 2, tags=("x", "y")))[-1]
    for at in (10.0, 20.0):
        await changed(store, plain, at)
        await changed(store, tagged, at + 5)
    found = await store.changes.page(ChangeFilter(tag="x"), order=Order.OLDEST)
    assert [c.detected_at for c in found.items] == [15.0, 25.0]
    assert [
        c.detected_at for c in (await store.changes.page(ChangeFilter(tag="x", since=20.0, site_id=tagged))).items
    ] == [25.0]
    assert (await store.changes.page(ChangeFilter(tag="x", site_id=plain))).items == []
    assert (await store.changes.page(ChangeFilter(tag="z"))).items == []
    newest = await store.changes.page(ChangeFilter(tag="y"), limit=1)
    assert newest.items == found.items[-1:]
    assert [c.detected_at for c in (await store.changes.page()).items] == [25.0, 20.0, 15.0, 10.0]


async def test_reading_on_passes_over_what_is_not_wanted(store: Store) -> None:
    plain, tagged = (await add(store, 1))[0], (await add(store, 2, tags=("x",)))[-1]
    assert await store.changes.last_id() == 0
    for at in (10.0, 20.0, 30.0):
        await changed(store, tagged, at)
    await changed(store, plain, 40.0)
    wanted = ChangeFilter(tag="x")
    first = await store.changes.after(wanted, 0, limit=2)
    assert ([c.detected_at for c in first.items], first.whole) == ([10.0, 20.0], False)
    second = await store.changes.after(wanted, first.reached, limit=2)
    assert ([c.detected_at for c in second.items], second.whole) == ([30.0], True)
    assert second.reached == await store.changes.last_id()
    third = await store.changes.after(wanted, second.reached)
    assert (third.items, third.reached, third.whole) == ([], second.reached, True)


async def test_gaps_between_numbers_are_not_counted(store: Store) -> None:
    site_id = (await add(store, 1))[0]
    for at in (10.0, 20.0, 30.0):
        await changed(store, site_id, at)
    move = "UPDATE change SET id = id + 1000000 WHERE id > 1"
    await store.database.write(lambda c: c.exec_driver_sql(move))
    changes = store.changes
    assert [await changes.id_before_newest(n) for n in (1, 2, 3)] == [1_000_002, 1, 0]
    assert [c.detected_at for c in (await changes.after(ChangeFilter(after=1), 0)).items] == [20.0, 30.0]


async def test_word_comes_after_the_commit_and_is_not_missed(store: Store) -> None:
    site_id = (await add(store, 1))[0]
    waiting = asyncio.create_task(store.changes.news(0))
    await poll_all(store, [site_id], 5.0, b"first")
    await asyncio.sleep(0)
    assert not waiting.done()
    await changed(store, site_id, 10.0)
    await asyncio.wait_for(waiting, 30)
    assert [c.detected_at for c in (await store.changes.after(ChangeFilter(), 0)).items] == [10.0]
    # Announced before anybody waited.
    await asyncio.wait_for(store.changes.news(0), 30)


async def test_a_repeated_batch_is_announced_too(store: Store) -> None:
    site_id = (await add(store, 1))[0]
    contexts = await store.sites.contexts([site_id])
    batch = Batch([record(contexts[site_id], 10.0, b"a", changed=True)])
    await store.commit(batch)
    assert (await store.commit(batch)).changes
    await asyncio.wait_for(store.changes.news(0), 30)


async def test_a_content_knows_its_media(store: Store) -> None:
    site_id = (await add(store, 1))[0]
    await changed(store, site_id, 10.0)
    change = (await store.changes.page()).items[0]
    content = await store.contents.get(change.after_content_id or 0)
    assert (content.media, content.body) == (Media.HTML, b"text 10.0")
