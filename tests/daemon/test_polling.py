"""What the daemon does with honest and less honest servers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time

import numpy as np
import pytest
from aiohttp import web

from pollerd.api.inputs import check_spec
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind, SiteState
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec
from pollerd.urls import host_of, normalise_url
from tests.daemon.conftest import FAST, Running, Start
from tests.daemon.windows import assert_windows
from tests.support.origin import Origin, Page, until, until_found

LATE = "Wed, 01 Jan 2041 00:00:00 GMT"


def html(text: str) -> str:
    return f"<html><body><p>{text}</p></body></html>"


async def test_finds_a_change_between_two_contents(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(html("one"))
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 2)
        origin.pages["/a"] = Page(html("two"))
        await until(lambda: running.control.health.status().changes == 1)
        (change,) = await running.changes()
        assert change.before_content_id is not None
        assert change.after_content_id is not None
        assert (await running.store.contents.get(change.before_content_id)).body == b"one"
        assert (await running.store.contents.get(change.after_content_id)).body == b"two"
        assert change.previous_poll_at is not None
        assert change.previous_poll_at < change.detected_at
        site = await running.site(site_id)
        assert (site.changes, site.state) == (1, SiteState.ACTIVE)
        polls = await running.polls(site_id)
        assert polls[0].outcome is OutcomeKind.FIRST
        assert sum(p.changed for p in polls) == 1


async def test_there_and_back_again_is_two_changes(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(html("A"))
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 1)
        for n, text in enumerate("BA", 1):
            origin.pages["/a"] = Page(html(text))
            await until(lambda n=n: running.control.health.status().changes == n)  # type: ignore[misc]
        first, second = await running.changes()
        assert first.before_content_id == second.after_content_id
        assert first.after_content_id == second.before_content_id


async def test_validators_are_echoed_verbatim_and_304_is_no_change(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(html("x"), etag='W/"odd, one"', headers={"Last-Modified": LATE})
    async with start(full_get_every=4) as running:
        (site_id,) = await running.add(origin.url("/a"))
        polls = await running.polled(site_id, 9)
        hits = origin.hits("/a")
        assert [h.headers.get("If-None-Match") for h in hits[:9]] == [None, *['W/"odd, one"'] * 3, None] + [
            'W/"odd, one"'
        ] * 3 + [None]
        assert hits[1].headers["If-Modified-Since"] == LATE
        assert [p.outcome.value for p in polls[:5]] == ["first", *["not_modified"] * 3, "unchanged"]
        assert not await running.changes()
        assert all(p.age is None for p in polls)


async def test_an_etag_that_stays_while_the_body_changes_is_found_out(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(html("one"), etag='"same"')
    async with start(full_get_every=3) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 2)
        origin.pages["/a"] = Page(html("two"), etag='"same"')
        await until(lambda: running.control.health.status().changes == 1)


async def test_an_etag_that_changes_while_the_body_stays_is_no_change(origin: Origin, start: Start) -> None:
    count = iter(range(1000))

    async def handler(_: web.Request) -> web.Response:
        n = next(count)
        return web.Response(text=html("same") + f"<!-- {n} -->", content_type="text/html", headers={"ETag": f'"{n}"'})

    origin.pages["/a"] = Page(handler=handler)
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        polls = await running.polled(site_id, 4)
        assert [p.outcome for p in polls[1:4]] == [OutcomeKind.UNCHANGED] * 3
        assert not await running.changes()


async def test_a_settings_change_asks_for_the_whole_page(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(html("x"), etag='"v"')
    async with start(full_get_every=10_000) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 3)
        seen = len(origin.hits("/a"))
        await running.control.sites.update(site_id, {"weight": 2.0})
        await until(lambda: len(origin.hits("/a")) >= seen + 4)
        after = [h.headers.get("If-None-Match") for h in origin.hits("/a")[seen:]]
        assert after.count(None) == 1


async def test_404_backs_off_and_comes_back(origin: Origin, start: Start) -> None:
    async with start() as running:
        (site_id,) = await running.add(origin.url("/missing"))
        polls = await running.polled(site_id, 2)
        assert polls[0].outcome is OutcomeKind.NOT_FOUND
        assert polls[1].at - polls[0].at >= 0.2
        site = await running.site(site_id)
        assert site.state is SiteState.BACKING_OFF
        origin.pages["/missing"] = Page(html("here"))
        await until(lambda: running.metric("pollerd_polls_total", outcome="first") == 1)
        site = await running.site(site_id)
        assert (site.state, site.failures) == (SiteState.ACTIVE, 0)


async def test_410_is_not_for_ever(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(status=410)
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        (poll,) = await running.polled(site_id, 1)
    for answer, state in ((Page(status=410), SiteState.GONE), (Page(html("back")), SiteState.ACTIVE)):
        polls = len(origin.hits("/a"))
        async with start() as running:
            found = await running.control.sites.explain(site_id)
            assert found.next_poll_at is not None
            assert found.next_poll_at >= poll.at + 86_400.0
            assert (found.why_not_now or "").startswith("the server said 410 Gone; it is requested again at 20")
            assert len(origin.hits("/a")) == polls
            origin.pages["/a"] = answer
            sites = running.daemon.parts.scheduler.sites
            slot = sites.slot_of(site_id)
            assert slot is not None
            sites.not_before[slot] = 0.0  # the days are over
            sites.touch([slot])
            running.daemon.parts.scheduler.due.set()
            await running.polled(site_id, polls + 1)
            assert (await running.site(site_id)).state is state


async def test_410_retires_a_site_until_it_is_resumed(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(status=410)
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 1)
        await asyncio.sleep(0.8)
        assert len(origin.hits("/a")) == 1
        assert (await running.site(site_id)).state is SiteState.GONE
        origin.pages["/a"] = Page(html("back"))
        await running.control.sites.pause(site_id, False)
        await running.polled(site_id, 2)
        assert (await running.site(site_id)).state is SiteState.ACTIVE


async def test_permanent_redirect_is_proposed_after_three_confirmations(origin: Origin, start: Start) -> None:
    origin.pages["/old"] = Page(status=301, headers={"Location": "/new"})
    origin.pages["/new"] = Page(html("here"))
    async with start() as running:
        (site_id,) = await running.add(origin.url("/old"))
        polls = await running.polled(site_id, 4)
        site = await running.site(site_id)
        assert site.redirect_url == origin.url("/new")
        assert site.redirect_count >= 3
        assert site.spec.url == origin.url("/old")
        assert [(r.status, r.url) for r in polls[0].redirects] == [(301, origin.url("/new"))]


async def test_a_redirect_into_what_robots_txt_denies_is_not_followed(origin: Origin, start: Start) -> None:
    origin.robots = Page("User-agent: *\nDisallow: /secret")
    origin.pages["/open"] = Page(status=302, headers={"Location": "/secret/x"})
    origin.pages["/secret/x"] = Page(html("hidden"))
    async with start() as running:
        (site_id,) = await running.add(origin.url("/open"))
        (poll,) = await running.polled(site_id, 1)
        assert poll.outcome is OutcomeKind.DENIED
        assert not origin.hits("/secret/x")


async def test_no_rate_is_shown_before_a_gap_was_seen(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(html("x"))
    async with start(allocator="whittle") as running:
        (site_id,) = await running.add(origin.url("/a"))
        assert running.control.sites.live([site_id])[site_id].rate_per_day is None
        await running.polled(site_id, 2)
        await until(lambda: running.control.sites.live([site_id])[site_id].rate_per_day is not None)


async def test_of_a_page_seen_a_few_times_the_median_rate_is_shown_and_stored(origin: Origin, start: Start) -> None:
    """The mean of such a belief is mostly its far tail."""
    served = itertools.count()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=html(f"text {next(served)} and nothing else"), content_type="text/html")

    origin.pages["/a"] = Page(handler=answer)
    async with start(allocator="whittle") as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 7)
        await running.control.sites.pause(site_id, True)
        await running.settled()
        live = running.control.sites.live([site_id])[site_id].rate_per_day
        slots = running.daemon.parts.scheduler.sites.slots_of(np.array([site_id], np.int64))
        allocator = running.daemon.parts.scheduler.allocator
        rates, weights = allocator.belief_of(slots)
        stored = (await running.store.sites.stored_forecasts([site_id]))[site_id].rate_per_day
        explained = running.explain(site_id).rate_per_day
        mean = float(allocator.rates_of(slots)[0]) * 86_400.0
    assert live is not None
    assert live == explained == pytest.approx(stored)
    below = weights[0][rates[0] * 86_400.0 < live].sum()
    assert below <= 0.5 <= below + weights[0].max(), "half of the belief is below, up to a step of it"
    assert live < 0.9 * mean


async def test_a_temporary_redirect_proposes_nothing(origin: Origin, start: Start) -> None:
    origin.pages["/old"] = Page(status=302, headers={"Location": "/new"})
    origin.pages["/new"] = Page(html("here"))
    async with start() as running:
        (site_id,) = await running.add(origin.url("/old"))
        await running.polled(site_id, 4)
        assert (await running.site(site_id)).redirect_url is None


@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [("120", 119, 121), ("1000000000", 86_399, 86_401), ("-1", 0, 1), ("soon", 0, 1), ("0", 1, 2)],
)
async def test_429_pauses_the_host(origin: Origin, start: Start, retry_after: str, least: float, most: float) -> None:
    origin.pages["/busy"] = Page(status=429, headers={"Retry-After": retry_after})
    origin.pages["/other"] = Page(html("x"))
    async with start() as running:
        (busy,) = await running.add(origin.url("/busy"))
        await running.polled(busy, 1)
        before = len(origin.hits())
        (other,) = await running.add(origin.url("/other"))
        explanation = running.explain(other)
        hosts = running.daemon.parts.scheduler.hosts
        paused_until = float(hosts.paused_until[hosts.slot_of(host_of(origin.url("/busy")))])
        assert least <= paused_until - (await running.polls(busy))[0].at <= most
        if least > 1:
            assert explanation.next_poll_at == pytest.approx(paused_until)
            await asyncio.sleep(0.5)
            assert len(origin.hits()) == before
            assert explanation.why_not_now == "the host asked to be left alone"


async def test_refusals_in_a_row_grow_the_pause_whatever_the_header_says(origin: Origin, start: Start) -> None:
    headers = ["0", "0.001", "Sat, 21 Nov 2020 12:00:00 GMT", "soon", "-5", None]
    given = {f"/{n}": answer for n, answer in enumerate(itertools.product([429, 503], headers))}
    for path, (status, value) in given.items():
        origin.pages[path] = Page(status=status, headers={} if value is None else {"Retry-After": value})
    async with start() as running:
        sites = {path: await running.add(origin.url(path, host=n)) for n, path in enumerate(given)}
        for path, (site_id,) in sites.items():
            for refusals, (a, b) in enumerate(itertools.pairwise((await running.polled(site_id, 4))[:4]), start=1):
                assert b.at - a.at >= 0.5 * FAST.backoff_base_seconds * 2 ** (refusals - 1), given[path]
        for path in given:
            origin.pages[path].status = 200
        await until(lambda: running.metric("pollerd_polls_total", outcome="first") == len(given))
        for path, (site_id,) in sites.items():
            assert (await running.site(site_id)).failures == 0, f"a success ends the row: {given[path]}"


async def test_a_pause_survives_a_restart(origin: Origin, start: Start) -> None:
    origin.pages["/busy"] = Page(status=429, headers={"Retry-After": "3000"})
    async with start() as running:
        (site_id,) = await running.add(origin.url("/busy"))
        await running.polled(site_id, 1)
    async with start() as running:
        (other,) = await running.add(origin.url("/other"))
        await asyncio.sleep(0.5)
        assert len(origin.hits()) == 1
        assert running.explain(other).why_not_now == "the host asked to be left alone"


async def test_503_leaves_the_url_alone_first_and_the_host_when_it_keeps_coming(origin: Origin, start: Start) -> None:
    origin.pages["/down"] = Page(status=503, headers={"Retry-After": "500"})
    origin.pages["/fine"] = Page(html("x"))
    async with start() as running:
        (down,) = await running.add(origin.url("/down"))
        await running.polled(down, 1)
        (fine,) = await running.add(origin.url("/fine"))
        await running.polled(fine, 2)
        assert len(origin.hits("/down")) == 1
    for n in range(3):
        origin.pages[f"/d{n}"] = Page(status=503, headers={"Retry-After": "500"})
    origin.pages.pop("/fine")
    async with start() as running:
        await running.control.sites.delete(fine)
        await running.add(*(origin.url(f"/d{n}") for n in range(3)))
        await until(lambda: running.metric("pollerd_polls_total", outcome="throttled") == 3)
        (late,) = await running.add(origin.url("/late"))
        assert running.explain(late).why_not_now == "the host asked to be left alone"


async def test_too_large_and_too_slow(origin: Origin, start: Start) -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response(text="late")

    origin.pages["/big"] = Page("x" * 200_000)
    origin.pages["/slow"] = Page(handler=slow)
    settings = FetchSettings(allow_private=True, max_body_bytes=100_000, total_timeout_seconds=2.0)
    async with start(fetching=settings) as running:
        big, slow_id = await running.add(origin.url("/big"), origin.url("/slow", host=2))
        assert (await running.polled(big, 1))[0].outcome is OutcomeKind.TOO_LARGE
        assert (await running.polled(slow_id, 1))[0].outcome is OutcomeKind.TIMEOUT


async def test_a_feed_tells_how_many_entries_are_new(origin: Origin, start: Start) -> None:
    def feed(n: int) -> str:
        numbers = range(n, 0, -1)
        items = "".join(f"<item><guid>http://x/{i}</guid><title>T{i}</title></item>" for i in numbers)
        return f'<?xml version="1.0"?><rss version="2.0"><channel><title>F</title>{items}</channel></rss>'

    origin.pages["/feed"] = Page(feed(5), headers={"Content-Type": "application/rss+xml"})
    async with start() as running:
        (site_id,) = await running.add(origin.url("/feed"))
        await running.polled(site_id, 1)
        origin.pages["/feed"] = Page(feed(8), headers={"Content-Type": "application/rss+xml"})
        await until(lambda: running.control.health.status().changes == 1)
        (poll,) = [p for p in await running.polls(site_id) if p.changed]
        assert poll.count == 3
        (change,) = await running.changes()
        assert change.kind.value == "feed"
        assert (change.summary[:2], change.summary.count("; ")) == ("+ ", 2)


async def test_a_site_that_always_changes_is_held_and_reported(origin: Origin, start: Start) -> None:
    count = iter(range(10_000))

    async def noisy(_: web.Request) -> web.Response:
        return web.Response(text=html(str(next(count))), content_type="text/html")

    origin.pages["/noisy"] = Page(handler=noisy)
    for n in range(40):
        origin.pages[f"/{n}"] = Page(html("calm"))
    async with start(budget=40, allocator="whittle") as running:
        (noisy_id,) = await running.add(origin.url("/noisy"))
        await running.polled(noisy_id, 9)
        await running.add(*(origin.url(f"/{n}", host=n + 1) for n in range(40)))
        assert running.explain(noisy_id).capped_to_uniform
        began, polls = time.monotonic(), len(origin.hits("/noisy"))
        await asyncio.sleep(4)
        period = 41 / 40
        allowed = (time.monotonic() - began) / period + 2
        assert len(origin.hits("/noisy")) - polls <= allowed
        assert running.control.allocation.view().noisy_sites == 1


async def test_deleting_stops_at_once_and_keeps_nothing_in_flight(origin: Origin, start: Start) -> None:
    async def slow(_: web.Request) -> web.Response:
        await let_go.wait()
        return web.Response(text="late")

    let_go = asyncio.Event()
    origin.pages["/slow"] = Page(handler=slow)
    patient = FetchSettings(allow_private=True, total_timeout_seconds=1_000)
    async with start(fetching=patient) as running:
        (site_id,) = await running.add(origin.url("/slow"))
        await until(lambda: bool(origin.hits("/robots.txt")) and sum(origin.concurrent.values()) == 1)
        await running.control.sites.delete(site_id)
        await until(lambda: running.control.health.status().in_flight == 0)
        assert running.control.health.status().sites == 0
        (again,) = await running.add(origin.url("/slow"))
        assert again != site_id
        let_go.set()


async def test_pausing_and_polling_by_hand(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(html("x"))
    scheduling = SchedulingSettings(min_interval_seconds=1000, min_saving_seconds=0, host_interval_seconds=0)
    async with start(scheduling=scheduling) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 1)
        await asyncio.sleep(0.3)
        assert len(origin.hits("/a")) == 1
        await running.control.sites.poll_now(site_id)
        await running.polled(site_id, 2)
        site = await running.control.sites.pause(site_id, True)
        assert site.state is SiteState.PAUSED
        await running.control.sites.poll_now(site_id)
        await asyncio.sleep(0.3)
        assert len(origin.hits("/a")) == 2
        await running.control.sites.pause(site_id, False)
        await running.polled(site_id, 3)


async def test_max_interval_is_kept_whatever_the_allocator_says(origin: Origin, start: Start) -> None:
    for n in range(30):
        origin.pages[f"/{n}"] = Page(html("x"))
    async with start(budget=20) as running:
        ids = await running.add(*(origin.url(f"/{n}", host=n) for n in range(30)))
        (urgent,) = await running.add(origin.url("/0?must", host=40), max_interval=0.4)
        began = (await running.polled(urgent, 1))[0].at
        polls = await running.polled(urgent, 12)
        others = [len([p for p in await running.polls(one) if p.at >= began]) for one in ids]
        assert sorted(others)[len(others) // 2] < 0.75 * len(polls), "round robin would poll all alike"


async def test_when_we_are_offline_no_site_is_blamed(origin: Origin, start: Start) -> None:
    for n in range(6):
        origin.pages[f"/{n}"] = Page(html("x"))
    async with start() as running:
        ids = await running.add(*(origin.url(f"/{n}", host=n) for n in range(6)))
        await until(lambda: running.metric("pollerd_polls_total", outcome="first") == 6)
        await origin.stop()
        await until(lambda: running.control.health.status().offline)
        await asyncio.sleep(0.5)  # what had answered before is read
        await running.daemon.parts.journal.flush()
        polls = running.control.health.status().polls
        await asyncio.sleep(2.5)
        assert running.control.health.status().polls == polls
        await origin.start()
        await until(lambda: not running.control.health.status().offline)
        await until(lambda: running.control.health.status().polls > polls + 12)
        for site_id in ids:
            assert (await running.site(site_id)).failures == 0
            assert all(p.outcome.informative for p in await running.polls(site_id))


@pytest.mark.parametrize("outage", [1.5, 4.0])
async def test_after_an_outage_polling_goes_on_at_the_full_rate_within_two_seconds(
    origin: Origin, start: Start, outage: float
) -> None:
    budget, sites = 25.0, 60
    for n in range(sites):
        origin.pages[f"/{n}"] = Page(html("x"))
    async with start(budget=budget) as running:
        await running.add(*(origin.url(f"/{n}", host=n) for n in range(sites)))
        await until(lambda: running.metric("pollerd_polls_total", outcome="first") == sites)
        await origin.stop()
        await until(lambda: running.control.health.status().offline)
        await asyncio.sleep(outage)
        await origin.start()
        back = time.monotonic()
        await until(lambda: len([hit for hit in origin.hits() if hit.at > back]) > 3 * budget)
    after = [hit.at - back for hit in origin.hits() if hit.at > back]
    assert sum(at <= 4.0 for at in after) >= 0.7 * budget * 2.0, "two seconds later the full rate has come"
    assert_windows(after, budget, slack=1)


async def test_one_dead_site_among_live_ones_is_blamed(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page(html("x"))
    async with start() as running:
        dead, alive = await running.add("http://127.0.0.9:9/dead", origin.url("/a"))
        polls = await running.polled(dead, 1)
        assert polls[0].outcome is OutcomeKind.CONNECT_ERROR
        assert polls[0].detail.startswith("robots.txt:")
        assert (await running.site(dead)).state is SiteState.BACKING_OFF
        await running.polled(alive, 2)
        assert not running.control.health.status().offline


async def test_a_poll_that_raises_takes_the_daemon_down_with_its_cause(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/a"] = Page(html("x"))
    cause = RuntimeError("our own fault")

    async def broken(*_: object) -> None:
        raise cause

    async with start() as running:
        monkeypatch.setattr("pollerd.daemon.poll.Poller.poll", broken)
        await running.add(origin.url("/a"))
        with pytest.raises(ExceptionGroup) as caught:
            await asyncio.wait_for(asyncio.shield(running.task), 60)
        assert cause in caught.value.exceptions
        with contextlib.suppress(ExceptionGroup):
            await running.task
        running.task = asyncio.create_task(asyncio.sleep(0))


async def test_a_lone_host_is_asked_again_as_soon_as_it_has_answered(start: Start, origin: Origin) -> None:
    """And not a tick later, of which these would take forty."""

    async def slowly(_: web.Request) -> web.Response:
        await asyncio.sleep(0.05)
        return web.Response(text="slow")

    paths = [f"/slow{i}" for i in range(40)]
    for path in paths:
        origin.pages[path] = Page(handler=slowly)
    async with start(budget=200.0, tick_seconds=1.0) as running:
        *_, last = await running.add(*(origin.url(path) for path in paths))
        await running.polled(last, 1, seconds=20)


def moved_for_good(origin: Origin, path: str, to: str) -> None:
    origin.pages[path] = Page(status=301, headers={"Location": origin.url(to, host=9)})


async def changes_once(running: Running, origin: Origin, ids: list[int]) -> list[tuple[int, bool]]:
    """Has the page change, and waits until all of these sites have seen it: site and importance of each change."""
    for site_id in ids:
        polls = len(await running.polls(site_id))
        await running.polled(site_id, polls + 2)
    before = len(await running.changes())
    origin.pages["/page"] = Page(html(f"another text {before}"))
    await until_found(lambda: _changed(running, before + len(ids)))
    return sorted((one.site_id, one.matters) for one in (await running.changes())[before:])


async def _changed(running: Running, number: int) -> bool:
    return len(await running.changes()) >= number


@pytest.mark.parametrize("watched", [False, True])
async def test_a_permanent_redirect_seen_from_two_sites_is_one_change(
    origin: Origin, start: Start, any_database: str, watched: bool
) -> None:
    """At the site of the target if there is one, else at the first that redirects there."""
    origin.pages["/page"] = Page(html("one"))
    moved_for_good(origin, "/old", "/page")
    moved_for_good(origin, "/older", "/page")
    async with start(url=any_database) as running:
        ids = await running.add(origin.url("/old", host=1), origin.url("/older", host=2))
        if watched:
            ids += await running.add(origin.url("/page", host=9))
        reports = ids[-1] if watched else ids[0]
        assert await changes_once(running, origin, ids) == [(one, one == reports) for one in ids]
        whys = {change.why for change in await running.changes() if not change.matters}
        assert len(whys) == 1
        assert "by a permanent redirect" in whys.pop()
    async with start(url=any_database) as running:
        await running.control.sites.pause(reports, True)
        left = [one for one in ids if one != reports]
        found = await changes_once(running, origin, left)
        assert found == [(one, one == left[0]) for one in left], "one that is paused reports nothing"


async def test_a_url_is_sent_as_it_was_given(origin: Origin, start: Start, any_database: str) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        return web.Response(text=html("here"), content_type="text/html")

    origin.pages["/~a/b"] = Page(handler=answer)
    async with start(url=any_database) as running:
        given = origin.url("/%7ea%2fb?sign=%2F")
        (site_id,) = [one for one, _, _ in (await running.control.sites.add([check_spec(SiteSpec(given))])).added]
        await running.polled(site_id, 2)
        assert {*asked} == {"/%7ea%2fb?sign=%2F"}
        site = await running.site(site_id)
        assert (site.spec.url, site.spec.sent_url) == (normalise_url(given), given)
        await running.control.sites.update(site_id, {"url": normalise_url(given)})
        assert (await running.site(site_id)).spec.spelling == ""
        polls = len(asked)
        await until(lambda: len(asked) > polls + 1)
        assert asked[-1] == "/~a%2Fb?sign=/"
