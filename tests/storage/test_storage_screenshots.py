"""Screenshots: kept with new contents, counted with them, gone with them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pollerd.errors import NotFoundError
from pollerd.model import Baseline, Media, SelectionState
from pollerd.storage import Batch, SelectionRecord, StorageSettings, Store
from pollerd.storage.db import steps
from pollerd.storage.db.engine import Database, database_url
from tests.storage.samples import add, query, record

PNG = b"\x89PNG\r\n\x1a\n"


async def find(store: Store, site: int, at: float, content: bytes, picture: bytes | None) -> int:
    """Commits a poll that found this content; returns the id of the site's content."""
    context = (await store.sites.contexts([site]))[site]
    found = replace(record(context, at, content, changed=context.content_id is not None), screenshot=picture)
    await store.commit(Batch([found]))
    return (await store.sites.contexts([site]))[site].content_id or 0


async def test_a_picture_is_kept_with_each_new_content(store: Store) -> None:
    (site,) = await add(store)
    first = await find(store, site, 10.0, b"one", PNG + b"1")
    second = await find(store, site, 20.0, b"two", PNG + b"2")
    again = await find(store, site, 30.0, b"one", PNG + b"3")
    assert again == first
    assert await store.history.get_screenshot(first) == PNG + b"1"
    assert await store.history.get_screenshot(second) == PNG + b"2"
    assert await store.history.last_screenshot(site) == PNG + b"1"
    bare = await find(store, site, 40.0, b"three", None)
    with pytest.raises(NotFoundError):
        await store.history.get_screenshot(bare)


async def test_each_new_content_of_a_selection_has_it(store: Store) -> None:
    (site,) = await add(store)
    context = (await store.sites.contexts([site]))[site]
    parts = tuple(
        SelectionRecord(SelectionState(name, b"v", Baseline(name.encode().rjust(16), media=Media.HTML)), b"text")
        for name in ("one", "two")
    )
    await store.commit(Batch([replace(record(context, 10.0), selections=parts, screenshot=PNG)]))
    states = await store.history.selection_states(site)
    assert [await store.history.get_screenshot(state.content_id or 0) for state in states] == [PNG, PNG]


async def test_pictures_count_with_their_contents_and_go_with_them(url: str) -> None:
    settings = StorageSettings(content_cap_bytes=1_000_000, keep_contents=2, content_retention_seconds=1e9)
    store = await Store.open(url, settings=settings)
    (site,) = await add(store)
    ids = [await find(store, site, 10.0 * n, b"page %d" % n, PNG + bytes(400_000)) for n in range(1, 5)]
    dropped = await store.prune(100.0)
    assert dropped.contents >= 2
    assert dropped.content_bytes > 800_000
    assert await store.history.get_screenshot(ids[-1])
    with pytest.raises(NotFoundError):
        await store.history.get_screenshot(ids[0])
    assert await query(url, "SELECT count(*) FROM screenshot") == await query(url, "SELECT count(*) FROM content")
    await store.sites.delete(site, 200.0)
    assert await query(url, "SELECT count(*) FROM screenshot") == [(0,)]
    await store.close()


async def test_without_the_table_sizes_are_those_of_the_contents(url: str, settings: StorageSettings) -> None:
    store = await Store.open(url, settings=settings)
    (site,) = await add(store)
    await find(store, site, 10.0, b"one", PNG + bytes(5_000))
    await find(store, site, 20.0, b"two", None)
    await store.prune(30.0)  # counts them
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: steps.down(c, "0015"))
    sizes = await query(url, "SELECT sum(size), sum(length(body)) FROM content")
    assert sizes[0][0] == sizes[0][1]
    assert await query(url, "SELECT bytes FROM content_use") == [(sizes[0][0],)]
    await database.write(steps.up)
    await database.close()
