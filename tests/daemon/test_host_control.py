"""Hosts that an operator pauses, or whose pause one ends, while they are being polled."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web

from pollerd.daemon.views import HostView
from pollerd.model import SiteState
from tests.daemon.conftest import Running, Start
from tests.storage.samples import query
from tests.support.origin import Origin, Page, until

BY = "a test"


def name_of(origin: Origin, host: int = 1) -> str:
    return origin.url("", host=host).removeprefix("http://")


async def host_of(running: Running, name: str) -> HostView:
    (view,) = await running.control.hosts.views([await running.store.sites.hosts.get(name)])
    return view


class Refusing:
    """A page that answers 429 for an hour, until it is told to answer."""

    def __init__(self) -> None:
        self.refuses = True

    async def __call__(self, request: web.Request) -> web.Response:
        if self.refuses:
            return web.Response(status=429, headers={"Retry-After": "3600"})
        return web.Response(text="<p>here</p>", content_type="text/html")


async def test_the_end_of_a_pause_after_429_polls_at_once_and_is_shown(origin: Origin, start: Start) -> None:
    page = Refusing()
    origin.pages["/busy"] = Page(handler=page)
    name = name_of(origin)
    async with start() as running:
        (site_id,) = await running.add(origin.url("/busy"))
        await running.polled(site_id, 1)
        view = await host_of(running, name)
        assert (view.paused, view.paused_by, view.refusals) == (True, "host", 1)
        assert view.pause_reason == "it asked to be left alone: 1 refusal in a row"
        assert view.paused_until is not None
        assert view.paused_until > time.time() + 3000
        assert (await running.site(site_id)).state is SiteState.BACKING_OFF
        page.refuses = False
        ended = await running.control.hosts.override(name, paused=False, until=None, by=BY)
        assert (ended.paused, ended.refusals) == (False, 0)
        await running.polled(site_id, 2)
        told = await running.control.sites.explain(site_id)
        assert told.host_override is not None
        assert (told.host_override.paused, told.host_override.by) == (False, BY)
        assert (await running.site(site_id)).state is SiteState.ACTIVE


async def test_a_host_that_refuses_again_is_paused_again(origin: Origin, start: Start) -> None:
    origin.pages["/busy"] = Page(handler=Refusing())
    async with start() as running:
        (site_id,) = await running.add(origin.url("/busy"))
        for polls in (1, 2):
            await running.polled(site_id, polls)
            view = await host_of(running, name_of(origin))
            assert (view.paused, view.refusals) == (True, 1)
            await running.control.hosts.override(name_of(origin), paused=False, until=None, by=BY)


async def test_other_backoffs_stay(origin: Origin, start: Start) -> None:
    origin.pages["/busy"] = Page(handler=Refusing())
    origin.pages["/broken"] = Page(status=500)
    async with start() as running:
        (broken,) = await running.add(origin.url("/broken"))
        await running.polled(broken, 1)
        (busy,) = await running.add(origin.url("/busy"))
        await running.polled(busy, 1)
        await running.control.hosts.override(name_of(origin), paused=False, until=None, by=BY)
        assert (await running.site(broken)).state is SiteState.BACKING_OFF
        assert (await running.site(broken)).failures >= 1


async def test_what_an_operator_did_outlives_a_kill(origin: Origin, start: Start, any_database: str) -> None:
    """Both are in the database once the call has answered."""
    origin.pages["/busy"] = Page(handler=Refusing())
    origin.pages["/held"] = Page()
    freed, held = name_of(origin, 1), name_of(origin, 2)
    async with start(url=any_database, kill=True) as running:
        (busy,) = await running.add(origin.url("/busy", host=1))
        (site,) = await running.add(origin.url("/held", host=2))
        await running.polled(busy, 1)
        await running.polled(site, 1)
        await running.control.hosts.override(held, paused=True, until=None, by=BY)
        origin.pages["/busy"] = Page()
        await running.control.hosts.override(freed, paused=False, until=None, by=BY)
    rows = await query(any_database, "SELECT throttles FROM host WHERE paused_until IS NOT NULL")
    assert rows == []
    async with start(url=any_database) as running:
        seen = len(await running.polls(busy))
        asked = len(origin.hits("/held"))
        await running.polled(busy, seen + 2)
        assert len(origin.hits("/held")) == asked
        view = await host_of(running, held)
        assert (view.paused, view.paused_until, view.paused_by) == (True, None, "operator")
        assert view.pause_reason == f"paused by hand, by {BY}"
        override = (await host_of(running, freed)).override
        assert override is not None
        assert (override.paused, override.by) == (False, BY)
        await running.control.hosts.override(held, paused=False, until=None, by=BY)
        await until(lambda: len(origin.hits("/held")) > asked)


async def test_a_pause_by_hand_ends_by_itself(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 1)
        ends = time.time() + 1.0
        await running.control.hosts.override(name_of(origin), paused=True, until=ends, by=BY)
        # What was under way then came to its end.
        await until(lambda: running.control.health.status().in_flight == 0)
        seen = len(origin.hits("/a"))
        moment = time.monotonic() + ends - time.time()
        await until(lambda: len(origin.hits("/a")) > seen)
        assert origin.hits("/a")[seen].at >= moment - 0.01


async def test_nothing_is_asked_of_a_held_host_by_way_of_another(origin: Origin, start: Start) -> None:
    """Neither a page nor a robots.txt is, that redirects there."""
    origin.pages["/here"] = Page(status=302, headers={"Location": origin.url("/there", host=2)})
    origin.pages["/there"] = origin.pages["/other"] = Page()
    async with start() as running:
        (there,) = await running.add(origin.url("/other", host=2))
        await running.polled(there, 1)
        await running.control.hosts.override(name_of(origin, 2), paused=True, until=None, by=BY)
        await until(lambda: running.control.health.status().in_flight == 0)
        origin.robots = Page(status=302, headers={"Location": origin.url("/robots.txt", host=2)})
        asked = len([hit for hit in origin.log if hit.host == name_of(origin, 2)])
        (here,) = await running.add(origin.url("/here", host=1))
        (third,) = await running.add(origin.url("/here", host=3))
        await running.polled(here, 1)
        await running.polled(third, 1)
        assert len([hit for hit in origin.log if hit.host == name_of(origin, 2)]) == asked


async def test_sites_paused_many_at_a_time_stay_so(origin: Origin, start: Start, any_database: str) -> None:
    for n in range(6):
        origin.pages[f"/{n}"] = Page()
    async with start(url=any_database, kill=True) as running:
        sites = await running.add(*(origin.url(f"/{n}", host=n) for n in range(6)))
        for site_id in sites:
            await running.polled(site_id, 1)
        assert await running.control.sites.pause_all(None, True, by=BY) == 6
    seen = len(origin.hits())
    async with start(url=any_database) as running:
        await asyncio.sleep(0.3)
        assert len(origin.hits()) == seen
        assert await running.control.sites.pause_all(None, False, by=BY) == 6
        await until(lambda: len(origin.hits()) >= seen + 6)


async def test_a_resumed_site_goes_on_where_it_stood(origin: Origin, start: Start) -> None:
    origin.pages["/gone"] = Page(status=410)
    origin.pages["/broken"] = Page(status=500)
    async with start() as running:
        gone, broken = await running.add(origin.url("/gone", host=1), origin.url("/broken", host=2))
        await running.polled(gone, 1)
        await running.polled(broken, 1)
        await running.control.sites.pause_all(None, True, by=BY)
        assert await running.control.sites.pause_all(None, False, by=BY) == 2
        assert (await running.site(gone)).state is SiteState.GONE
        assert (await running.site(broken)).state is SiteState.BACKING_OFF
