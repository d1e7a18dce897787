"""kill -9 at any moment: nothing committed is lost, no change is missed or counted twice."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
from pathlib import Path

from pollerd.model import Change
from pollerd.storage.encoding import Order
from pollerd.storage.store import Store
from tests.storage.samples import learned_of
from tests.support.origin import Origin, Page, until
from tests.support.process import command, daemon_process

PAGES = 24
HOSTS = 8
BUDGET = 60


class Versions:
    """Pages that only ever get newer: page n says k, which grows, and nothing else.

    They change at nearly every poll, as noise does; but a page that is all noise is never masked, so that each change
    has to be found.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self.current = dict.fromkeys(range(PAGES), 0)
        for page in self.current:
            self._show(page)

    def _show(self, page: int) -> None:
        text = f"<p>{self.current[page]}</p>"
        self._origin.pages[f"/{page}"] = Page(text, etag=f'"{self.current[page]}"' if page % 2 else None)

    async def grow(self) -> None:
        """Until cancelled, another page every few milliseconds."""
        for page in itertools.cycle(self.current):
            self.current[page] += 1
            self._show(page)
            await asyncio.sleep(0.02)


def url_list(origin: Origin, tmp_path: Path) -> str:
    file = tmp_path / "urls.txt"
    file.write_text("\n".join(origin.url(f"/{n}", host=n % HOSTS) for n in range(PAGES)))
    return str(file)


async def version(store: Store, content_id: int | None) -> int:
    assert content_id is not None
    return int((await store.contents.get(content_id)).body)


async def assert_an_unbroken_chain(store: Store, changes: list[Change], last: int) -> None:
    """Each change starts where the one before ended, and the versions only grow up to the last."""
    after = [await version(store, change.after_content_id) for change in changes]
    before = [await version(store, change.before_content_id) for change in changes]
    assert before[1:] == after[:-1]
    assert all(old < new for old, new in zip(before, after, strict=True))
    assert after[-1:] in ([], [last])


async def test_killed_again_and_again(origin: Origin, any_database: str, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print("seed:", seed)  # noqa: T201  # shown with a failure
    moments = random.Random(seed)
    versions = Versions(origin)
    urls, log = url_list(origin, tmp_path), tmp_path / "log"
    growing = asyncio.create_task(versions.grow())
    variables = {"POLLERD_BUDGET": str(BUDGET), "POLLERD_KEEP_CONTENTS": "100000"}
    for more in (1, 1, 3 * PAGES):  # killed early, and killed when there was something to lose
        async with daemon_process(any_database, log, urls, **variables) as daemon:
            wanted = len(origin.hits()) + more
            await until(lambda wanted=wanted: len(origin.hits()) >= wanted)  # type: ignore[misc]
            await asyncio.sleep(moments.uniform(0.0, 1.2))
            await daemon.kill()
    growing.cancel()
    async with daemon_process(any_database, log, urls, **variables) as daemon:
        hits = {page: len(origin.hits(f"/{page}")) for page in versions.current}
        await until(lambda: all(len(origin.hits(f"/{page}")) > seen + 1 for page, seen in hits.items()))
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
    assert "Traceback" not in log.read_text(), log.read_text()
    store = await Store.open(any_database)
    try:
        await assert_nothing_lost_nothing_twice(store, origin, versions)
    finally:
        await store.close()


async def assert_nothing_lost_nothing_twice(store: Store, origin: Origin, versions: Versions) -> None:
    page_of_changes = await store.changes.page(limit=1000, order=Order.OLDEST)
    assert page_of_changes.next_cursor is None
    changes = page_of_changes.items
    assert len(changes) >= PAGES // 2
    sites = [site async for site in store.sites.iterate()]
    assert len(sites) == PAGES
    contexts = await store.sites.contexts([site.id for site in sites])
    for site in sites:
        page = int(site.spec.url.rsplit("/", 1)[1])
        own = [change for change in changes if change.site_id == site.id]
        await assert_an_unbroken_chain(store, own, versions.current[page])
        assert await version(store, contexts[site.id].content_id) == versions.current[page], "the last was found"
        polls = (await store.history.list_polls(site.id, limit=1000)).items
        assert len(polls) == site.polls <= len(origin.hits(f"/{page}"))
        assert sum(poll.changed for poll in polls) == site.changes == len(own)
    site_ids, states = await learned_of(store, "whittle")
    assert sorted(site_ids.tolist()) == sorted(site.id for site in sites)
    assert states.shape[1] > 0
    info = await store.runs.start("test", 0.0)
    assert info.previous_clean


async def test_a_second_daemon_is_refused_and_the_first_goes_on(
    origin: Origin, any_database: str, tmp_path: Path
) -> None:
    Versions(origin)
    urls = url_list(origin, tmp_path)
    async with daemon_process(any_database, tmp_path / "log", urls, POLLERD_BUDGET="50") as first:
        await until(lambda: len(origin.hits()) >= 5)
        second = await command("run", "--database", any_database, "--listen", "127.0.0.1:0")
        assert second.code == 2
        (line,) = second.err.strip().splitlines()
        assert line.startswith("pollerd: another daemon ")
        seen = len(origin.hits())
        await until(lambda: len(origin.hits()) >= seen + 10)
        assert first.running
