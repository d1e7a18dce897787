"""kill -9 while the pages of a sitemap join: what was committed stays, the rest joins after the restart."""

from __future__ import annotations

import random
import time
from pathlib import Path

from pollerd.storage.sources import SourceSpec
from pollerd.storage.store import Store
from tests.support.origin import Origin, Page, until_found
from tests.support.process import daemon_process

PAGES = 6_000


async def joined(database: str, least: int) -> None:
    """Waits until so many pages of the source have joined, as read beside the daemon."""
    store = await Store.open(database, exclusive=False)
    try:
        await until_found(lambda: _joined(store, least), 120.0)
    finally:
        await store.close()


async def _joined(store: Store, least: int) -> bool:
    return (await store.sources.get(1)).joined >= least


async def test_killed_while_pages_join(origin: Origin, any_database: str, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print("seed:", seed)  # noqa: T201  # shown with a failure
    pages = [origin.url(f"/{n}") for n in range(PAGES)]
    origin.pages["/map.txt"] = Page("\n".join(pages), etag='"1"')
    store = await Store.open(any_database)
    source = await store.sources.add(SourceSpec(origin.url("/map.txt")), time.time(), read_at=time.time())
    await store.close()
    log = tmp_path / "log"
    for least in (1, random.Random(seed).randrange(1, PAGES)):
        async with daemon_process(any_database, log) as daemon:
            await joined(any_database, least)
            await daemon.kill()
        store = await Store.open(any_database)
        members = await store.sources.members(source.id)
        assert await store.sites.count() == len(members) >= least, "a site and its source are one transaction"
        await store.sources.ask_read(source.id, time.time())  # a slow look may have let the reading end
        await store.close()
    async with daemon_process(any_database, log) as daemon:
        await joined(any_database, PAGES)
        await daemon.said("source_read")
        await daemon.kill()
    assert "Traceback" not in log.read_text()
    store = await Store.open(any_database)
    try:
        members = await store.sources.members(source.id)
        assert sorted(member.url for member in members) == sorted(pages)
        assert len({member.site_id for member in members}) == await store.sites.count() == PAGES
        assert len(await store.sources.removable(source.id, 2 * PAGES)) == PAGES, "all were added by the source"
    finally:
        await store.close()
