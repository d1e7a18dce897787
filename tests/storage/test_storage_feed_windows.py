"""What feeds show is stored with their polls, and read with their contexts and at a start."""

from __future__ import annotations

import numpy as np
import structlog.testing
from msgspec.structs import replace

from pollerd.model import FeedWindow
from pollerd.storage import migrate
from pollerd.storage.engine import Database, database_url
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import add, poll_all, query, record, schedule_of

WINDOW = FeedWindow(items=20, new=14, limited=True, oldest_at=10.0, newest_at=90.0, read_at=100.0, full_polls=3)


async def commit(store: Store, site: int, window: FeedWindow | None, at: float) -> None:
    context = (await store.sites.contexts([site]))[site]
    polled = record(context, at)
    after = replace(polled.context, baseline=replace(context.baseline, window=window))
    await store.commit(Batch([replace(polled, context=after)]))


async def stored(store: Store, site: int) -> FeedWindow | None:
    return (await store.sites.contexts([site]))[site].baseline.window


async def test_what_a_feed_shows_is_stored_with_its_poll(store: Store) -> None:
    feed, growing, page = await add(store, 3)
    await commit(store, feed, WINDOW, 100.0)
    await commit(store, growing, replace(WINDOW, limited=False, new=None, oldest_at=None), 100.0)
    await poll_all(store, [page], 100.0, b"text")
    assert await stored(store, feed) == WINDOW
    assert await stored(store, growing) == replace(WINDOW, limited=False, new=None, oldest_at=None)
    assert await stored(store, page) is None
    np.testing.assert_array_equal((await schedule_of(store)).items_shown, [20.0, np.nan, np.nan])
    await commit(store, feed, None, 200.0)
    assert await stored(store, feed) is None
    np.testing.assert_array_equal((await schedule_of(store)).items_shown, [np.nan] * 3)


async def test_a_page_at_another_url_shows_nothing_yet(store: Store) -> None:
    (feed,) = await add(store)
    await commit(store, feed, WINDOW, 100.0)
    await store.sites.update(feed, {"url": "http://new/", "host": "new:80"}, 200.0)
    assert await stored(store, feed) is None
    np.testing.assert_array_equal((await schedule_of(store)).items_shown, [np.nan])


async def test_what_was_damaged_by_hand_is_read_as_unknown_and_logged(store: Store, url: str) -> None:
    (feed,) = await add(store)
    await commit(store, feed, WINDOW, 100.0)
    await query(url, "UPDATE site_state SET feed_window = '[1, 2'")
    with structlog.testing.capture_logs() as lines:
        assert await stored(store, feed) is None
    assert [(line["event"], line["site_id"]) for line in lines] == [("feed_window_unusable", feed)]
    assert lines[0]["reason"]
    await commit(store, feed, WINDOW, 200.0)
    with structlog.testing.capture_logs() as lines:
        assert await stored(store, feed) == WINDOW
    assert lines == []


async def test_windows_of_feeds_go_down_and_up(url: str, settings: StorageSettings) -> None:
    """0031 adds two columns; the rows stay."""
    store = await Store.open(url, settings=settings)
    (feed,) = await add(store)
    await commit(store, feed, WINDOW, 100.0)
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0029"))
    await database.close()
    assert await query(url, "SELECT last_poll_at, polls FROM site_state") == [(100.0, 1)]
    await migrate.upgrade(url)
    store = await Store.open(url, settings=settings)
    assert await stored(store, feed) is None
    await commit(store, feed, WINDOW, 200.0)
    assert await stored(store, feed) == WINDOW
    await store.close()


async def test_numbers_of_items_are_stored_with_polls(store: Store) -> None:
    """Also in a batch with pages, and in one of pages alone, which is written without them."""
    feed, page = await add(store, 2)
    for at, given in ((10.0, {"at_least": 9, "span": 8.5}), (20.0, {"at_least": 2, "count": 2}), (30.0, {})):
        contexts = await store.sites.contexts([feed, page])
        of_feed = record(contexts[feed], at, changed=bool(given), **given)
        await store.commit(Batch([of_feed, record(contexts[page], at + 1.0)]))
    polls = (await store.history.list_polls(feed, 10)).items
    assert [(poll.at_least, poll.span) for poll in polls] == [(None, None), (2, None), (9, 8.5)]
    (columns,) = [piece async for piece in store.history.recent_polls()]
    of = columns.site_id == feed
    np.testing.assert_array_equal(columns.at_least[of], [9, 2, -1])
    np.testing.assert_array_equal(columns.span[of], [8.5, np.nan, np.nan])
    np.testing.assert_array_equal(columns.at_least[~of], [-1] * 3)


async def test_items_of_polls_go_down_and_up(url: str, settings: StorageSettings) -> None:
    """0032 adds two columns to polls; the rows stay."""
    store = await Store.open(url, settings=settings)
    (feed,) = await add(store)
    await store.commit(Batch([record((await store.sites.contexts([feed]))[feed], 5.0, at_least=3, span=2.0)]))
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0031"))
    await database.close()
    assert await query(url, "SELECT at, count FROM poll") == [(5.0, None)]
    await migrate.upgrade(url)
    store = await Store.open(url, settings=settings)
    assert [poll.at_least for poll in (await store.history.list_polls(feed, 10)).items] == [None]
    await store.close()
