"""The focused crawler live: a small web on loopback, several hosts, some of its pages on the topic."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from pollerd.crawler.topics import TopicSettings
from pollerd.errors import ConfigError
from pollerd.model import PageState, Site
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.crawler.collection import CollectionStatus, StoredPage
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, CommitResult
from tests.daemon.conftest import FAST, Running, Start
from tests.support.origin import Hit, Origin, Page, until
from tests.support.process import daemon_process

ON_TOPIC = "lava and ash rise from the crater of the volcano, magma breaks through basalt in an eruption"
OFF_TOPIC = "bread and cake come from the oven of the bakery, dough rises with yeast in butter and flour"
TOPIC = TopicSettings(
    "volcanoes", keywords=("volcano", "lava", "magma", "eruption"), background=(OFF_TOPIC,), relevance_min=0.3
)
HOSTS = 4
PATIENCE_SECONDS = 60.0


class SmallWeb:
    """Pages /0 to /n-1, page i on host i mod 4. Every third is on the topic; page i links to 2i + 1 and 2i + 2."""

    def __init__(self, origin: Origin, pages: int) -> None:
        self.origin, self.pages = origin, pages
        for number in range(pages):
            self.show(number)

    @property
    def seed(self) -> str:
        return self.url(0)

    def relevant(self) -> set[str]:
        return {self.url(number) for number in range(0, self.pages, 3)}

    def url(self, number: int) -> str:
        return self.origin.url(f"/{number}", host=number % HOSTS)

    def show(self, number: int, text: str | None = None, head: str = "", more: str = "") -> None:
        children = [child for child in (2 * number + 1, 2 * number + 2) if child < self.pages]
        links = "".join(f"<a href='{self.url(child)}'>{self.text(child)}</a>" for child in children)
        body = f"<html><head>{head}</head><body><p>{text or self.text(number)}</p>{links}{more}</body></html>"
        self.origin.pages[f"/{number}"] = Page(body)

    @staticmethod
    def text(number: int) -> str:
        return OFF_TOPIC if number % 3 else ON_TOPIC


async def pages_of(store: Store) -> dict[str, StoredPage]:
    return {page.url: page async for page in store.collection.iter_pages()}


async def explored(running: Running) -> CollectionStatus:
    """Waits until nothing is left to be asked for."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            status = await running.store.collection.status()
            assert status is not None
            if not status.pages[PageState.FRONTIER] + status.pages[PageState.ASKED]:
                return status
            await asyncio.sleep(0.05)


async def page_in_state(running: Running, url: str, state: PageState) -> StoredPage:
    """Waits until the page is in that state."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (page := (await pages_of(running.store)).get(url)) is None or page.state is not state:
            await asyncio.sleep(0.05)
    return page


async def sites_of(store: Store) -> dict[str, Site]:
    return {site.spec.url: site async for site in store.sites.iterate()}


def gaps(hits: list[Hit]) -> list[float]:
    """Seconds between requests to the same host."""
    by_host: dict[str, list[float]] = {}
    for hit in hits:
        by_host.setdefault(hit.host, []).append(hit.at)
    return [late - early for times in by_host.values() for early, late in itertools.pairwise(sorted(times))]


async def test_relevant_pages_are_enrolled_and_no_others(origin: Origin, start: Start) -> None:
    small = SmallWeb(origin, 30)
    async with start(topic=TOPIC, seeds=[small.seed], allocator="whittle", objective="freshness") as running:
        status = await explored(running)
        found, sites = await pages_of(running.store), await sites_of(running.store)
        links = [link async for link in running.store.collection.iter_links()]
    collected = {url for url, page in found.items() if page.state is PageState.COLLECTED}
    assert collected == small.relevant() == set(sites)
    assert all(sites[url].spec.weight == found[url].relevance for url in collected)
    rejected = {page.reason for page in found.values() if page.state is PageState.REJECTED}
    assert rejected <= {"irrelevant", "not found"}  # the latter are sitemaps
    assert status.enrolled == 10
    assert status.requests == len(found)
    assert len(links) == 29
    asked = Counter(hit.path for hit in origin.hits())
    assert {asked[f"/{number}"] for number in range(30) if number % 3} == {1}


async def test_limits_are_kept(origin: Origin, start: Start) -> None:
    small = SmallWeb(origin, 40)
    limits = replace(TOPIC, max_depth=4, pages_per_host=5, collection_size=4, deny_domains=("127.0.0.3",))
    async with start(topic=limits, seeds=[small.seed]) as running:
        asked = set[str]()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(asked) < 12:
                asked = {hit.host + hit.path for hit in origin.hits()}
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        status = await running.store.collection.status()
        found = await pages_of(running.store)
    assert status is not None
    assert status.pages[PageState.COLLECTED] == 4
    assert max(page.depth for page in found.values()) <= 4
    by_host = Counter(url.split("/")[2] for url, page in found.items() if page.state is not PageState.FRONTIER)
    assert max(by_host.values()) <= 5
    assert "127.0.0.3" not in {url.split("/")[2].split(":")[0] for url in found}
    assert "127.0.0.3" not in {hit.host.split(":")[0] for hit in origin.log}


async def test_a_full_collection_takes_the_better_page_only(origin: Origin, start: Start) -> None:
    weak = f"{ON_TOPIC} {OFF_TOPIC}"
    origin.pages["/weak"] = Page(f"<p>{weak}</p><a href='{origin.url('/good', host=2)}'>x</a>")
    origin.pages["/good"] = Page(f"<p>{ON_TOPIC}</p><a href='{origin.url('/late', host=3)}'>x</a>")
    origin.pages["/late"] = Page(f"<p>{weak}</p>")
    one = replace(TOPIC, collection_size=1)
    async with start(topic=one, seeds=[origin.url("/weak")]) as running:
        late = await page_in_state(running, origin.url("/late", host=3), PageState.REJECTED)
        found, sites = await pages_of(running.store), await sites_of(running.store)
    assert late.reason == "the collection is full"
    assert found[origin.url("/weak")].reason == "crowded out"
    assert {url for url in sites if not url.endswith("/sitemap.xml")} == {origin.url("/good", host=2)}


async def test_robots_txt_and_spacing_hold_for_fringe_and_refresh_together(origin: Origin, start: Start) -> None:
    small = SmallWeb(origin, 30)
    origin.robots = Page("User-agent: *\nDisallow: /4\nDisallow: /1\n")
    spaced = SchedulingSettings(
        min_interval_seconds=0, min_saving_seconds=0, host_interval_seconds=0.15, backoff_base_seconds=0.4
    )
    async with start(topic=TOPIC, seeds=[small.seed], scheduling=spaced, allocator="whittle") as running:
        await until(lambda: len(origin.log) > 60)
        found = await pages_of(running.store)
    assert found[small.url(1)].reason == "denied"
    assert not [hit for hit in origin.hits() if hit.path.startswith(("/1", "/4"))]
    assert max(Counter(hit.path for hit in origin.hits()).values()) > 1, "what is held was refreshed"
    assert min(gaps(origin.log)) > 0.15 - 0.05  # the server sees starts a little later or sooner than they were made
    assert origin.most_concurrent == 1


async def test_what_a_page_asks_of_robots_is_respected(origin: Origin, start: Start) -> None:
    seed, other, plain = origin.url("/seed"), origin.url("/other", host=2), origin.url("/plain", host=3)
    links = "".join(
        f"<a href='{origin.url(path, host=2)}'>lava</a>" for path in ("/noindex", "/copy", "/moved", "/other")
    )
    origin.pages["/seed"] = Page(f"<p>{ON_TOPIC}</p>{links}<a rel=nofollow href='{origin.url('/secret')}'>lava</a>")
    origin.pages["/noindex"] = Page(f"<meta name=robots content=noindex><p>{ON_TOPIC}</p><a href='{plain}'>lava</a>")
    origin.pages["/copy"] = Page(f"<link rel=canonical href='{other}'><p>{ON_TOPIC}</p>")
    origin.pages["/moved"] = Page(status=301, headers={"Location": other})
    origin.pages["/other"] = Page(f"<p>{ON_TOPIC}</p>")
    origin.pages["/plain"] = Page(
        f"<p>{ON_TOPIC}</p><a href='{origin.url('/hidden')}'>lava</a>", headers={"X-Robots-Tag": "nofollow"}
    )
    async with start(topic=TOPIC, seeds=[seed]) as running:
        await explored(running)
        found, sites = await pages_of(running.store), await sites_of(running.store)
    reasons = {url.rsplit("/", 1)[1]: page.reason for url, page in found.items() if page.state is PageState.REJECTED}
    assert reasons.pop("sitemap.xml") == "not found"
    assert reasons == {"noindex": "noindex", "copy": "has another canonical URL", "moved": "moved"}
    assert set(sites) == {seed, other, plain}
    assert not {"/secret", "/hidden"} & {hit.path for hit in origin.hits()}


async def test_a_redirect_leads_nobody_out_of_bounds(origin: Origin, start: Start) -> None:
    origin.pages["/seed"] = Page(status=302, headers={"Location": origin.url("/out", host=3)})
    origin.pages["/out"] = Page(f"<p>{ON_TOPIC}</p>")
    bounded = replace(TOPIC, deny_domains=("127.0.0.4",))
    async with start(topic=bounded, seeds=[origin.url("/seed")]) as running:
        page = await page_in_state(running, origin.url("/seed"), PageState.REJECTED)
    assert page.reason == "denied"
    assert origin.hits("/out") == []


async def test_sitemaps_tell_of_pages(origin: Origin, start: Start) -> None:
    lonely = origin.url("/lonely")
    origin.pages["/seed"] = Page(f"<p>{ON_TOPIC}</p>")
    origin.pages["/lonely"] = Page(f"<p>{ON_TOPIC}</p>")
    origin.robots = Page(f"User-agent: *\nDisallow:\nSitemap: {origin.url('/map.xml')}\n")
    origin.pages["/map.xml"] = Page(
        f"<urlset><url><loc>{lonely}</loc><lastmod>2026-01-02</lastmod></url></urlset>",
        headers={"Content-Type": "application/xml"},
    )
    async with start(topic=TOPIC, seeds=[origin.url("/seed")]) as running:
        page = await page_in_state(running, lonely, PageState.COLLECTED)
        links = [link async for link in running.store.collection.iter_links()]
    assert page.modified_at == 1767312000.0
    assert links == [], "no reader saw those"


async def test_a_page_that_turns_irrelevant_is_dropped_and_one_that_wavers_is_kept(
    origin: Origin, start: Start
) -> None:
    turning, wavering = origin.url("/turning"), origin.url("/wavering", host=2)
    for path in ("/turning", "/wavering"):
        origin.pages[path] = Page(f"<p>{ON_TOPIC}</p>")
    strict = replace(TOPIC, relevance_min=0.5)
    async with start(topic=strict, seeds=[turning, wavering]) as running:
        before = await page_in_state(running, wavering, PageState.COLLECTED)
        await page_in_state(running, turning, PageState.COLLECTED)
        origin.pages["/turning"] = Page(f"<p>{OFF_TOPIC}</p>")
        origin.pages["/wavering"] = Page(f"<p>{ON_TOPIC} and dough and oven and bread</p>")
        dropped = await page_in_state(running, turning, PageState.REJECTED)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (after := (await pages_of(running.store))[wavering]).relevance == before.relevance:
                await asyncio.sleep(0.05)
        sites = await sites_of(running.store)
    assert dropped.reason == "irrelevant"
    assert after.state is PageState.COLLECTED
    assert after.relevance is not None
    assert strict.relevance_kept <= after.relevance < (before.relevance or 0.0)
    assert turning not in sites
    assert sites[wavering].spec.weight == after.relevance


async def test_under_other_words_what_is_held_is_scored_anew(origin: Origin, start: Start) -> None:
    """Though it did not change; what is not on the topic any more goes."""
    lava, mixed = origin.url("/lava"), origin.url("/mixed", host=2)
    origin.pages["/lava"] = Page(f"<p>{ON_TOPIC}</p>")
    origin.pages["/mixed"] = Page(f"<p>{ON_TOPIC}</p><p>{OFF_TOPIC} and bread again</p>")
    async with start(topic=TOPIC, seeds=[lava, mixed]) as running:
        await page_in_state(running, lava, PageState.COLLECTED)
        before = await page_in_state(running, mixed, PageState.COLLECTED)
    bread = replace(TOPIC, keywords=("bread", "cake", "oven", "dough"), background=(ON_TOPIC,))
    async with start(topic=bread) as running:
        dropped = await page_in_state(running, lava, PageState.REJECTED)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (after := (await pages_of(running.store))[mixed]).relevance == before.relevance:
                await asyncio.sleep(0.05)
        sites = await sites_of(running.store)
    assert dropped.reason == "irrelevant"
    assert after.state is PageState.COLLECTED
    assert sites[mixed].spec.weight == after.relevance


@pytest.mark.parametrize(("status", "reason"), [(410, "gone"), (404, "not found")])
async def test_a_page_that_is_no_more_is_dropped(origin: Origin, start: Start, status: int, reason: str) -> None:
    seed = origin.url("/seed")
    origin.pages["/seed"] = Page(f"<p>{ON_TOPIC}</p>")
    quick = replace(FAST, backoff_base_seconds=0.05)
    async with start(topic=TOPIC, seeds=[seed], scheduling=quick) as running:
        await page_in_state(running, seed, PageState.COLLECTED)
        origin.pages["/seed"] = Page("no more", status=status)
        page = await page_in_state(running, seed, PageState.GONE)
        assert seed not in await sites_of(running.store)
    assert page.reason == reason


async def test_a_page_whose_commit_is_refused_stays_on_trial(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, commit, refused = SmallWeb(origin, 12), Store.commit, 0

    async def picky(store: Store, batch: Batch) -> CommitResult:
        nonlocal refused
        if refused < 2 and any(record.context.url == small.seed and record.page for record in batch.records):
            refused += 1  # with the others, and alone
            raise RuntimeError("refused")
        return await commit(store, batch)

    monkeypatch.setattr(Store, "commit", picky)
    quick = replace(FAST, backoff_base_seconds=0.05)
    async with start(topic=TOPIC, seeds=[small.seed], scheduling=quick) as running:
        await page_in_state(running, small.seed, PageState.COLLECTED)
        status = await explored(running)
        found = await pages_of(running.store)
    assert refused == 2
    assert status.requests == len(found)
    assert status.enrolled == len(small.relevant())


async def test_a_host_that_does_not_answer_is_given_up(origin: Origin, start: Start) -> None:
    async def silent(_: web.Request) -> web.Response:
        return web.Response(status=503)

    origin.pages["/silent"] = Page(handler=silent)
    origin.pages["/seed"] = Page(f"<p>{ON_TOPIC}</p><a href='{origin.url('/silent', host=2)}'>lava</a>")
    quick = replace(FAST, backoff_base_seconds=0.05)
    async with start(topic=TOPIC, seeds=[origin.url("/seed")], scheduling=quick) as running:
        page = await page_in_state(running, origin.url("/silent", host=2), PageState.REJECTED)
    assert page.reason in ("server_error", "throttled")
    assert len(origin.hits("/silent")) == 3


async def test_the_users_sites_and_words_stand(origin: Origin, start: Start) -> None:
    """A site of the user's is read, never dropped or weighed; what the user deletes is not asked for again."""
    small = SmallWeb(origin, 6)
    async with start() as running:
        (own,) = await running.add(small.url(1), weight=7.0)
        await running.polled(own, 2)
    async with start(topic=TOPIC, seeds=[small.seed]) as running:
        await page_in_state(running, small.url(3), PageState.COLLECTED)
        site = (await sites_of(running.store))[small.url(3)]
        await running.control.sites.delete(site.id)
        await explored(running)
        found = await pages_of(running.store)
        assert (await running.site(own)).spec.weight == 7.0
    assert found[small.url(1)].site_id == own
    assert not found[small.url(1)].own
    assert found[small.url(3)].reason == "its site was deleted"


async def test_another_topic_and_no_seeds_are_refused(origin: Origin, start: Start) -> None:
    with pytest.raises(ConfigError, match="seeds"):
        async with start(topic=TOPIC):
            pass
    async with start(topic=TOPIC, seeds=[origin.url("/seed")]):
        pass
    with pytest.raises(ConfigError, match="volcanoes"):
        async with start(topic=replace(TOPIC, name="bread"), seeds=[origin.url("/seed")]):
            pass
    async with start(topic=TOPIC) as running:
        seed = await page_in_state(running, origin.url("/seed"), PageState.REJECTED)
    assert seed.reason == "not found"


async def test_the_first_minute_is_seen_in_the_metrics(origin: Origin, start: Start) -> None:
    small = SmallWeb(origin, 12)
    async with start(topic=TOPIC, seeds=[small.seed]) as running:
        status = await explored(running)
        assert status.pages[PageState.COLLECTED] == 4
        await until(lambda: running.metric("pollerd_collection_pages", state="collected") == 4, PATIENCE_SECONDS)
        await until(lambda: running.metric("pollerd_collection_requests") == status.requests, PATIENCE_SECONDS)


async def test_what_an_older_version_had_learned_is_learned_anew(origin: Origin, start: Start, tmp_path: Path) -> None:
    small = SmallWeb(origin, 12)
    async with start(topic=TOPIC, seeds=[small.seed]) as running:
        await explored(running)
    with sqlite3.connect(tmp_path / "poll.db") as database:
        (kept,) = database.execute("SELECT learned FROM collection").fetchone()
        database.execute("UPDATE collection SET learned = ?", (kept.replace(b"appraiser 3", b"appraiser 2"),))
    origin.pages["/more"] = Page(f"<p>{ON_TOPIC}</p>")
    async with start(topic=TOPIC, seeds=[origin.url("/more")]) as running:
        await page_in_state(running, origin.url("/more"), PageState.COLLECTED)
    with sqlite3.connect(tmp_path / "poll.db") as database:
        (kept,) = database.execute("SELECT learned FROM collection").fetchone()
    assert kept.startswith(b"appraiser 3\n")


async def test_an_allocator_that_knows_no_weights_is_refused(origin: Origin, start: Start) -> None:
    with pytest.raises(ConfigError, match="allocator htraa cannot weigh"):
        async with start(topic=TOPIC, seeds=[origin.url("/seed")], allocator="htraa"):
            pass


async def test_without_the_topic_its_pages_are_polled_and_no_links_followed(origin: Origin, start: Start) -> None:
    small = SmallWeb(origin, 12)
    origin.pages["/2"] = Page(handler=_never)
    async with start(topic=TOPIC, seeds=[small.seed], kill=True) as running:
        await page_in_state(running, small.url(3), PageState.COLLECTED)
        await until(lambda: origin.concurrent.get(small.url(2).split("/")[2], 0) > 0)
    seen = len(origin.hits("/0"))
    async with start() as running:
        await until(lambda: len(origin.hits("/0")) > seen)
        found, sites = await pages_of(running.store), await sites_of(running.store)
    assert found[small.url(2)].state is PageState.FRONTIER
    assert set(sites) == {url for url, page in found.items() if page.state is PageState.COLLECTED}


async def _never(_: web.Request) -> web.Response:
    await asyncio.sleep(60)
    return web.Response()


async def test_a_calendar_is_bounded_over_a_restart(origin: Origin, start: Start) -> None:
    small = SmallWeb(origin, 1)

    def days(year: int) -> str:
        return "".join(f"<a href='{origin.url(f'/calendar/{year}/{day}')}'>day {day}</a>" for day in range(70))

    async def calendar(running: Running) -> int:
        await explored(running)
        return sum("/calendar/" in url for url in await pages_of(running.store))

    small.show(0, more=days(2026))
    limits = replace(TOPIC, pages_per_host=1_000)
    async with start(topic=limits, seeds=[small.seed]) as running:
        assert await calendar(running) == 70
    small.show(0, more=days(2026) + days(2027))
    async with start(topic=limits, seeds=[small.seed]) as running:
        (seed,) = [site.id for url, site in (await sites_of(running.store)).items() if url == small.seed]
        await running.control.sites.poll_now(seed)
        await until(lambda: running.metric("pollerd_changes_total") >= 1)
        assert await calendar(running) == 100


async def test_killed_in_the_middle_nothing_committed_is_asked_twice(origin: Origin, tmp_path: Path) -> None:
    small = SmallWeb(origin, 60)
    (tmp_path / "topic.toml").write_text(
        f'name = "volcanoes"\nkeywords = {list(TOPIC.keywords)}\nbackground = ["{OFF_TOPIC}"]\nrelevance_min = 0.3\n'
    )
    (tmp_path / "seeds.txt").write_text(small.seed)
    database, log = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", tmp_path / "log"
    flags = ["--topic", str(tmp_path / "topic.toml"), "--budget", "40"]
    async with daemon_process(database, log, *flags, "--seeds", str(tmp_path / "seeds.txt")) as daemon:
        await until(lambda: len({hit.path for hit in origin.hits()}) >= 15)
        await daemon.kill()
    store = await Store.open(database)
    rejected = {page.url for page in (await pages_of(store)).values() if page.state is PageState.REJECTED}
    committed = rejected & {small.url(number) for number in range(60)}
    await store.close()
    hits = {url: len(origin.hits("/" + url.rsplit("/", 1)[1])) for url in committed}
    async with daemon_process(database, log, *flags) as daemon:
        await until(lambda: all(origin.hits(f"/{number}") for number in range(60)))
        await daemon.kill()
    store = await Store.open(database)
    found = await pages_of(store)
    links = {(source, target) async for source, target, _ in store.collection.iter_links()}
    sites = await sites_of(store)
    await store.close()
    assert "Traceback" not in log.read_text(), log.read_text()
    assert "no_sites" not in log.read_text(), "nobody has to add any"
    assert {url: len(origin.hits("/" + url.rsplit("/", 1)[1])) for url in committed} == hits
    assert len(committed) >= 3
    ids = {page.id: page for page in found.values()}
    read = {page.id for page in found.values() if page.relevance is not None}
    expected = {
        (found[small.url(n)].id, found[small.url(child)].id)
        for n in range(60)
        for child in (2 * n + 1, 2 * n + 2)
        if child < 60 and small.url(n) in found and found[small.url(n)].id in read
    }
    assert links == expected
    assert all(ids[page.parent_id].depth < page.depth for page in found.values() if page.parent_id is not None)
    held = {page.url for page in found.values() if page.site_id is not None}
    assert held == set(sites)
