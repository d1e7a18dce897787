"""Screenshots: kept with a content that is new, counted with it, and gone with it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pollerd.errors import NotFoundError
from pollerd.site_settings import NO_ACCESS, SiteSpec, TagSettings
from pollerd.storage import migrate
from pollerd.storage.engine import Database, database_url
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import add, query, record
from tests.storage.test_storage_content_retention import assert_counted, changes_of, large

PNG = b"\x89PNG\r\n\x1a\n"


async def find(store: Store, site: int, at: float, number: int, png: bytes | None) -> int:
    """Commits a poll that found content `number`; returns the id of the content."""
    context = (await store.sites.contexts([site]))[site]
    one = replace(record(context, at, large(number), changed=number > 0), screenshot=png)
    return (await store.commit(Batch([one]))).content_ids[site]


async def test_a_new_content_keeps_it_and_one_that_comes_back_the_first(store: Store) -> None:
    [site, other] = await add(store, 2)
    with pytest.raises(NotFoundError):
        await store.contents.current_screenshot(site)
    first = await find(store, site, 1.0, 0, PNG + b"one")
    second = await find(store, site, 2.0, 1, None)
    assert await find(store, site, 3.0, 0, PNG + b"two") == first
    assert await find(store, site, 4.0, 1, PNG + b"three") == second
    assert await store.contents.screenshot(first) == PNG + b"one"
    for missing in (second, second + 1):
        with pytest.raises(NotFoundError):
            await store.contents.screenshot(missing)
    await find(store, site, 5.0, 2, PNG + b"four")
    assert await store.contents.current_screenshot(site) == PNG + b"four"
    with pytest.raises(NotFoundError):
        await store.contents.current_screenshot(other)


async def test_it_counts_for_the_cap_and_goes_with_its_content(url: str) -> None:
    store = await Store.open(url, settings=StorageSettings(content_cap_bytes=20_000, keep_contents=2))
    [site] = await add(store)
    picture = PNG + large(3, 3_000)
    ids = [await find(store, site, float(number), number, picture) for number in range(12)]
    assert (await store.prune(100.0)).content_bytes >= 12 * (500 + len(picture)) - 20_000
    kept = {content_id for (content_id,) in await query(url, "SELECT id FROM content")}
    assert {content_id for (content_id,) in await query(url, "SELECT content_id FROM screenshot")} == kept
    assert kept == set(ids[-len(kept) :])
    assert 0 < len(kept) < 6
    await assert_counted(store, url)
    assert len(await changes_of(store, site)) == 11
    await store.sites.delete(site, 200.0)
    assert await query(url, "SELECT content_id FROM screenshot") == []
    await store.close()


async def test_a_site_goes_before_its_tags(store: Store) -> None:
    specs = [SiteSpec("http://a/", tags=("t",), keep_screenshots=False), SiteSpec("http://a/b", tags=("t",))]
    specs.append(SiteSpec("http://a/c", keep_screenshots=True))
    result = await store.sites.add(specs, ["a:80"] * 3, 1.0, respect_deleted=True)
    ids = [site_id for site_id, _, _ in result.added]
    await store.sites.tags.put(TagSettings("t", {"keep_screenshots": True}, NO_ACCESS, 1.0), sends=True)
    contexts = await store.sites.contexts(ids)
    assert [contexts[site_id].keep_screenshots for site_id in ids] == [False, True, True]
    assert [(await store.sites.get(i)).spec.keep_screenshots for i in ids] == [False, None, True]
    await store.sites.update(ids[0], {"keep_screenshots": None}, 2.0)
    assert (await store.sites.contexts(ids))[ids[0]].keep_screenshots


async def test_down_and_up_with_rows(url: str, settings: StorageSettings) -> None:
    """0017 adds a column and a table; what stands beside them stays."""
    store = await Store.open(url, settings=settings)
    [site] = await add(store, keep_screenshots=True)
    content = await find(store, site, 1.0, 0, PNG)
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0015"))
    assert await query(url, f"SELECT id FROM content WHERE id = {content}") == [(content,)]
    await database.close()
    assert await migrate.upgrade(url) == migrate.head()
    store = await Store.open(url, settings=settings)
    assert (await store.sites.get(site)).spec.keep_screenshots is None
    assert (await store.contents.get(content)).body == large(0)
    with pytest.raises(NotFoundError):
        await store.contents.screenshot(content)
    await store.close()
