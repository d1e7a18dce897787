"""kill -9 while the pages of a sitemap join: what was committed stays, the rest joins after the restart."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from pollerd.storage import Source, SourceSpec, Store
from tests.support.origin import Origin, Page
from tests.support.process import daemon_process

PAGES = 6_000


async def found_in(database: str) -> Source:
    """The source, read beside the daemon."""
    store = await Store.open(database, exclusive=False)
    try:
        return await store.sources.get(1)
    finally:
        await store.close()


async def joined(database: str, least: int) -> None:
    for _ in range(6_000):
        if (await found_in(database)).joined >= least:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(await found_in(database))


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
