"""A daemon that polls with a site's own headers, credentials and proxy."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
import structlog

from pollerd.fetching.settings import FetchSettings
from pollerd.logs import set_up_logs
from pollerd.model import OutcomeKind
from pollerd.site_settings import Access, Credentials, SiteSpec
from tests.daemon.conftest import Start
from tests.support.origin import Origin, Page, until
from tests.support.proxy import proxied

SECRET = Access((("X-Key", "s3cret-key"),), Credentials("someone", "s3cret-pw"))


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    out = io.StringIO()
    set_up_logs("json", "debug", out)
    yield out
    structlog.reset_defaults()


async def test_they_are_sent_to_the_page_only(origin: Origin, start: Start, logged: io.StringIO) -> None:
    origin.pages["/a"] = Page(status=302, headers={"Location": origin.url("/b", host=2)})
    origin.pages["/b"] = Page()
    async with start() as running:
        result = await running.control.sites.add([SiteSpec(origin.url("/a"), access=SECRET)])
        site_id = result.added[0][0]
        polls = await running.polled(site_id, 2)
        assert {p.outcome for p in polls} <= {OutcomeKind.FIRST, OutcomeKind.UNCHANGED}
        told = f"{running.control.explainer.explain(site_id)} {await running.site(site_id)} {polls}"
    for hit in origin.log:
        assert (hit.path == "/a") == ("X-Key" in hit.headers), hit
        assert (hit.path == "/a") == ("Authorization" in hit.headers), hit
    assert origin.hits("/a")[0].headers["Authorization"] == "Basic c29tZW9uZTpzM2NyZXQtcHc="
    assert "s3cret" not in told + logged.getvalue()


async def test_a_change_of_them_asks_for_the_whole_page(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(etag='"1"')
    async with start() as running:
        [site_id] = await running.add(origin.url("/a"), min_interval=0.2)
        await running.polled(site_id, 2)
        await running.control.sites.update(site_id, {"access": SECRET})
        await until(lambda: sum("X-Key" in hit.headers for hit in origin.hits("/a")) >= 2)
        await running.control.sites.pause(site_id, True)
        await running.settled()
        polls = await running.polls(site_id)
    keyed = [hit for hit in origin.hits("/a") if "X-Key" in hit.headers]
    assert "If-None-Match" not in keyed[0].headers
    assert "If-None-Match" in keyed[1].headers
    assert OutcomeKind.NOT_MODIFIED in {p.outcome for p in polls}


async def test_a_redirect_that_is_accepted_takes_no_secrets_along(origin: Origin, start: Start) -> None:
    async with start() as running:
        result = await running.control.sites.add([SiteSpec(origin.url("/a"), access=SECRET)])
        site = await running.control.sites.update(result.added[0][0], {"url": origin.url("/b", host=2)})
        assert not site.spec.access
        [same] = await running.add(origin.url("/c"))
        await running.control.sites.update(same, {"access": SECRET})
        assert (await running.control.sites.update(same, {"url": origin.url("/d")})).spec.access == SECRET


async def test_robots_and_page_go_through_the_sites_own_proxy(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    origin.robots = Page("User-agent: *\nDisallow: /private\n")
    async with proxied() as proxy, start() as running:
        access = Access((("X-Key", "k"),), None, proxy.url())
        result = await running.control.sites.add([SiteSpec(origin.url("/a"), access=access)])
        await running.polled(result.added[0][0], 1)
        targets = [asked.target for asked in proxy.asked]
        assert targets[:2] == [origin.url("/robots.txt"), origin.url("/a")]
        assert "x-key" not in proxy.asked[0].headers
        assert proxy.asked[1].headers["x-key"] == "k"


async def test_everything_goes_through_the_daemons_proxy(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with proxied() as proxy:
        fetching = FetchSettings(allow_private=True, total_timeout_seconds=5, proxy=proxy.url())
        async with start(fetching=fetching) as running:
            [site_id] = await running.add(origin.url("/a"))
            await running.polled(site_id, 1)
        assert {a.target for a in proxy.asked} == {origin.url("/robots.txt"), origin.url("/a")}
        assert len(origin.log) == len(proxy.asked)
