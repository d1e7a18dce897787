"""Sites in step with sitemaps and feeds: a daemon, its databases, and lists on loopback servers."""

from __future__ import annotations

import asyncio
import gzip
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiohttp import web

from pollerd.errors import DuplicateError, NotFoundError
from pollerd.fetching.settings import FetchSettings
from pollerd.model import SiteState
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.sources import MemberState, Source, SourceSpec
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

OFTEN = 0.2
SECONDS = 60.0


def urlset(urls: Iterable[str]) -> str:
    return "<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>"


def index(urls: Iterable[str]) -> str:
    return "<sitemapindex>" + "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls) + "</sitemapindex>"


def packed(text: str) -> Page:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(text.encode()), content_type="application/gzip")

    return Page(handler=answer)


class Lists:
    """A sitemap on the origin, whose pages a test changes; each version has an ETag of its own."""

    def __init__(self, origin: Origin, path: str = "/sitemap.xml") -> None:
        self.origin, self.path, self._version = origin, path, 0

    def show(self, *paths: str) -> None:
        self.say(urlset(self.origin.url(path) for path in paths))

    def say(self, body: str, status: int = 200) -> None:
        self._version += 1
        self.origin.pages[self.path] = Page(body, status=status, etag=f'"{self._version}"')

    @property
    def url(self) -> str:
        return self.origin.url(self.path)


@pytest.fixture
def lists(origin: Origin) -> Lists:
    return Lists(origin)


async def until_read(running: Running, source_id: int, fits: Callable[[Source], bool]) -> Source:
    """Waits until a reading of the source left it so."""
    source = await running.store.sources.get(source_id)
    for _ in range(int(SECONDS / 0.03)):
        if source.last_read_at is not None and fits(source):
            return source
        await asyncio.sleep(0.03)
        source = await running.store.sources.get(source_id)
    raise AssertionError(source)


async def add(running: Running, url: str, **settings: Any) -> Source:
    return await running.control.sources.add(SourceSpec(url, **{"interval": OFTEN, **settings}))


async def reread(running: Running, source_id: int) -> Source:
    """Waits for two more readings: the second one began after this call."""
    for _ in range(2):
        before = (await running.store.sources.get(source_id)).last_read_at
        await until_read(running, source_id, lambda source: source.last_read_at != before)  # noqa: B023
    return await running.store.sources.get(source_id)


async def paths(running: Running, *, paused: bool | None = None) -> set[str]:
    """The paths of the sites: all, or those that are paused, or not."""
    sites = [site async for site in running.store.sites.iterate()]
    return {
        "/" + site.spec.url.split("/", 3)[3]
        for site in sites
        if paused is None or paused is (site.state is SiteState.PAUSED)
    }


async def test_pages_join_vanish_and_return(origin: Origin, lists: Lists, start: Start, any_database: str) -> None:
    lists.show("/a", "/b", "/c")
    async with start(url=any_database) as running:
        source = await add(running, lists.url, tags=("news",), weight=3.0)
        await until_read(running, source.id, lambda s: s.joined == 3)
        found = (await running.store.sites.at([origin.url("/a")]))[origin.url("/a")]
        assert (found.spec.tags, found.spec.weight) == (("news",), 3.0)
        await running.polled(found.id, 1)
        lists.show("/b", "/c", "/d")
        await until(lambda: running.metric("pollerd_source_sites_total", event="vanished") == 1)
        after = await running.store.sources.get(source.id)
        assert (after.joined, after.vanished) == (3, 1)
        assert await paths(running, paused=True) == {"/a"}
        assert await paths(running, paused=False) == {"/b", "/c", "/d"}
        assert running.daemon.parts.scheduler.is_paused(found.id)
        (gone,) = (await running.store.sources.sites_of(source.id, MemberState.VANISHED)).items
        assert (gone.site_id, gone.paused) == (found.id, True)
        lists.show("/a", "/b", "/c", "/d")
        # The reading after may have begun, which says "nothing new".
        await until(lambda: running.metric("pollerd_source_sites_total", event="returned") == 1)
        assert (await running.store.sources.get(source.id)).joined == 4
        assert await paths(running, paused=True) == set()
        assert not running.daemon.parts.scheduler.is_paused(found.id)


async def test_unchanged_lists_cost_conditional_requests_and_no_query(
    origin: Origin, lists: Lists, start: Start
) -> None:
    lists.show("/a")
    async with start() as running:
        source = await add(running, lists.url)
        await until_read(running, source.id, lambda s: s.joined == 1)
        await reread(running, source.id)
        hits = origin.hits(lists.path)
        assert hits[0].status == 200
        assert {hit.status for hit in hits[1:]} == {304}
        assert running.metric("pollerd_source_reads_total", result="unchanged") >= 1


async def test_an_index_of_packed_sitemaps_and_a_part_that_fails(origin: Origin, lists: Lists, start: Start) -> None:
    lists.say(index([origin.url("/1.xml.gz"), origin.url("/2.xml.gz")]))
    origin.pages["/1.xml.gz"] = packed(urlset(origin.url(f"/a{n}") for n in range(5)))
    origin.pages["/2.xml.gz"] = packed(urlset(origin.url(f"/b{n}") for n in range(5)))
    async with start() as running:
        source = await add(running, lists.url)
        await until_read(running, source.id, lambda s: s.joined == 10)
        origin.pages["/2.xml.gz"] = Page("broken", status=500)
        origin.pages["/1.xml.gz"] = packed(urlset(origin.url(f"/a{n}") for n in range(1, 6)))
        # A reading that was under way may have seen the one as it was and the other as it is.
        after = await until_read(running, source.id, lambda s: s.failures > 0 and s.joined == 11)
        assert "/2.xml.gz: HTTP status 500" in after.last_detail
        assert (after.joined, after.vanished) == (11, 0), "what is new joins; nothing is taken as vanished"
        await until(lambda: running.metric("pollerd_sources_failing") == 1)
        origin.pages["/2.xml.gz"] = packed(urlset(origin.url(f"/b{n}") for n in range(5)))
        healed = await until_read(running, source.id, lambda s: s.failures == 0)
        assert (healed.joined, healed.vanished) == (10, 1)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 200),
        ("<urlset></urlset>", 200),
        ("<html>maintenance</html>", 200),
        ("gone", 404),
        ("busy", 503),
        ("<urlset><url><loc>{a}</loc></url><url><loc>https://cut", 200),
        ("<urlset><url><loc>{a}</loc></url></urlset>", 200),
    ],
    ids=["nothing", "empty", "another page", "404", "503", "cut off", "shrunk"],
)
async def test_a_list_that_cannot_be_believed_pauses_nothing(
    origin: Origin, lists: Lists, start: Start, body: str, status: int
) -> None:
    lists.show("/a", "/b", "/c", "/d")
    async with start() as running:
        source = await add(running, lists.url)
        await until_read(running, source.id, lambda s: s.joined == 4)
        lists.say(body.format(a=origin.url("/a")), status)
        after = await until_read(running, source.id, lambda s: s.failures > 0)
        assert (after.joined, after.vanished) == (4, 0)
        assert "no page is taken as vanished" in after.last_detail
        assert await paths(running, paused=True) == set()


async def test_a_user_may_accept_that_it_shrank(lists: Lists, start: Start) -> None:
    lists.show("/a", "/b", "/c", "/d")
    async with start() as running:
        source = await add(running, lists.url)
        await until_read(running, source.id, lambda s: s.joined == 4)
        lists.show("/a")
        doubted = await until_read(running, source.id, lambda s: s.failures > 0)
        assert "it lists 1 pages, and 4 before" in doubted.last_detail
        await running.control.sources.update(source.id, SourceSpec("", interval=OFTEN, most_shrink=1.0))
        await until_read(running, source.id, lambda s: (s.joined, s.vanished) == (1, 3))


async def test_what_a_user_paused_or_resumed_stays_so(origin: Origin, lists: Lists, start: Start) -> None:
    lists.show("/a", "/b", "/c", "/d")
    async with start() as running:
        source = await add(running, lists.url)
        await until_read(running, source.id, lambda s: s.joined == 4)
        ids = {
            url: site.id for url, site in (await running.store.sites.at([origin.url("/a"), origin.url("/b")])).items()
        }
        by_hand, again = ids[origin.url("/a")], ids[origin.url("/b")]
        await running.control.sites.pause(by_hand, True)
        lists.show("/c", "/d")
        await until_read(running, source.id, lambda s: s.vanished == 2)
        await running.control.sites.pause(again, False)
        await running.control.sites.pause_all(None, True, by="a test")
        lists.show("/a", "/b", "/c", "/d")
        await until_read(running, source.id, lambda s: s.joined == 4)
        assert await paths(running, paused=False) == set()


async def test_sites_that_were_there_stay_as_they_are_and_deleted_ones_stay_away(
    origin: Origin, lists: Lists, start: Start
) -> None:
    async with start() as running:
        (own, deleted) = await running.add(origin.url("/own"), origin.url("/deleted"), weight=7.0)
        await running.control.sites.delete(deleted)
        lists.show("/own", "/deleted", "/a", "/b")
        # Seldom: the words stand until the next reading, which finds nothing new.
        source = await add(running, lists.url, interval=3600.0)
        words = "1 skipped: deleted by a user"
        await until_read(running, source.id, lambda s: s.joined == 3 and words in s.last_detail)
        lists.show("/a", "/b")
        await running.control.sources.update(source.id, SourceSpec("", interval=OFTEN))
        await until_read(running, source.id, lambda s: s.vanished == 1)
        site = await running.site(own)
        assert (site.spec.paused, site.spec.weight) == (False, 7.0)
        assert await paths(running) == {"/own", "/a", "/b"}


async def test_a_site_of_two_sources_vanishes_with_the_last(origin: Origin, start: Start, any_database: str) -> None:
    one, two = Lists(origin, "/one.xml"), Lists(origin, "/two.xml")
    one.show("/a", "/b")
    two.show("/a", "/c")
    async with start(url=any_database) as running:
        first = await add(running, one.url)
        await until_read(running, first.id, lambda s: s.joined == 2)
        second = await add(running, two.url)
        await until_read(running, second.id, lambda s: s.joined == 2)
        one.show("/b")
        await until_read(running, first.id, lambda s: s.vanished == 1)
        assert await paths(running, paused=True) == set()
        await running.control.sources.delete(first.id)
        two.show("/c")
        await until_read(running, second.id, lambda s: s.vanished == 1)
        assert await paths(running, paused=True) == {"/a"}
        assert await running.control.sources.delete(second.id, remove_sites=True) == 2
        assert await paths(running) == {"/b"}
        with pytest.raises(NotFoundError):
            await running.control.sources.delete(second.id)
        third = await add(running, two.url)
        await until_read(running, third.id, lambda s: s.joined == 1)
        assert await paths(running) == {"/b", "/c"}, "what went with a source was not deleted by a user"


async def test_limit_and_pattern_hold_and_may_change(lists: Lists, start: Start) -> None:
    lists.show("/news/1", "/news/2", "/news/3", "/shop/1")
    async with start() as running:
        source = await add(running, lists.url, pattern="/news/", site_limit=2)
        words = "1 skipped: over the limit"
        await until_read(running, source.id, lambda s: s.joined == 2 and words in s.last_detail)
        with pytest.raises(DuplicateError) as refused:
            await add(running, lists.url)
        assert refused.value.existing_id == source.id
        wider = SourceSpec("", interval=OFTEN, pattern="re:/(news|shop)/1$", site_limit=10)
        await running.control.sources.update(source.id, wider)
        await until_read(running, source.id, lambda s: (s.joined, s.vanished) == (2, 1))
        assert await paths(running) == {"/news/1", "/news/2", "/shop/1"}


async def test_pages_of_other_hosts_need_their_robots_txt(origin: Origin, lists: Lists, start: Start) -> None:
    here, there = origin.url("/a"), origin.url("/b", host=2)
    lists.say(urlset([here, there]))
    origin.robots = Page("User-agent: *\nDisallow:\n")
    async with start() as running:
        # Seldom: the words stand until the next reading, which finds nothing new.
        source = await add(running, lists.url, interval=3600.0)
        words = "1 page of other hosts skipped"
        await until_read(running, source.id, lambda s: s.joined == 1 and words in s.last_detail)
        await running.control.sources.update(source.id, SourceSpec("", interval=OFTEN, hosts="any"))
        await until_read(running, source.id, lambda s: s.joined == 2)
    origin.robots = Page(f"Sitemap: {lists.url}\n")
    async with start() as running:
        (source,) = await running.store.sources.all()
        await running.control.sources.delete(source.id, remove_sites=True)
        running.daemon.parts.scheduler.hosts.robots_at[:] = float("-inf")
        source = await add(running, lists.url)
        await until_read(running, source.id, lambda s: s.joined == 2)


async def test_a_feed_brings_links_from_anywhere(origin: Origin, start: Start) -> None:
    feed = Lists(origin, "/feed")
    links = [origin.url("/1"), origin.url("/2", host=3)]
    items = "".join(f"<item><guid>{link}</guid><link>{link}</link></item>" for link in links)
    feed.say(f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>')
    async with start() as running:
        source = await add(running, feed.url, kind="feed", hosts="any")
        await until_read(running, source.id, lambda s: s.joined == 2)


async def test_robots_txt_holds_for_the_list_too(origin: Origin, lists: Lists, start: Start) -> None:
    lists.show("/a")
    origin.robots = Page("User-agent: *\nDisallow: /sitemap\n")
    async with start() as running:
        source = await add(running, lists.url)
        refused = await until_read(running, source.id, lambda s: s.failures > 0)
        assert "robots.txt of the host denies it" in refused.last_detail
        assert origin.hits(lists.path) == []


async def test_private_addresses_are_refused_without_the_flag(lists: Lists, start: Start) -> None:
    lists.show("/a")
    async with start(fetching=FetchSettings(allow_private=False)) as running:
        source = await add(running, lists.url)
        await until_read(running, source.id, lambda s: s.failures > 0)
        assert lists.origin.log == []


async def test_a_reading_keeps_to_the_host_interval(origin: Origin, lists: Lists, start: Start) -> None:
    lists.say(index(origin.url(f"/{n}.xml") for n in range(3)))
    for n in range(3):
        origin.pages[f"/{n}.xml"] = Page(urlset([origin.url(f"/p{n}")]))
    polite = SchedulingSettings(min_interval_seconds=0, min_saving_seconds=0, host_interval_seconds=0.3)
    async with start(scheduling=polite) as running:
        source = await add(running, lists.url, interval=60.0)
        await until_read(running, source.id, lambda s: s.joined == 3)
    assert origin.most_concurrent == 1
    starts = [hit.at for hit in origin.log]
    assert all(after - before > 0.25 for before, after in itertools.pairwise(starts))


async def test_sources_go_on_after_a_restart_and_a_paused_one_is_not_read(
    origin: Origin, lists: Lists, start: Start, any_database: str
) -> None:
    lists.show("/a")
    async with start(url=any_database) as running:
        source = await add(running, lists.url)
        await until_read(running, source.id, lambda s: s.joined == 1)
    lists.show("/a", "/b")
    async with start(url=any_database) as running:
        await until_read(running, source.id, lambda s: s.joined == 2)
        await running.control.sources.update(source.id, SourceSpec("", paused=True, interval=OFTEN))
        await asyncio.sleep(2 * OFTEN)
        seen = len(origin.hits(lists.path))
        lists.show("/a", "/b", "/c")
        await asyncio.sleep(4 * OFTEN)
        assert len(origin.hits(lists.path)) == seen
        await running.control.sources.update(source.id, SourceSpec("", interval=OFTEN))
        await until_read(running, source.id, lambda s: s.joined == 3)


async def test_a_moved_site_stays_the_sources(origin: Origin, lists: Lists, start: Start) -> None:
    lists.show("/a", "/b")
    async with start() as running:
        source = await add(running, lists.url)
        await until_read(running, source.id, lambda s: s.joined == 2)
        site = (await running.store.sites.at([origin.url("/a")]))[origin.url("/a")]
        await running.control.sites.update(site.id, {"url": origin.url("/new")})
        lists.show("/a", "/b", "/c")
        await until_read(running, source.id, lambda s: s.joined == 3)
        assert await paths(running) == {"/new", "/b", "/c"}
