"""One host is asked one thing at a time, spaced, as its robots.txt allows - whatever happens to the daemon."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Any

import aiohttp
import numpy as np
import pytest
import structlog
from aiohttp import web
from aiohttp.connector import Connection

from pollerd.daemon import robots
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind, SiteState
from pollerd.scheduling.settings import SchedulingSettings
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

TOLERANCE_SECONDS = 0.03
"""Between a start here and its arrival at the server's kernel."""
LATE_SECONDS = 0.3
ROUNDING_SECONDS = 1e-3
"""Of a clock that counts from 1970."""


def spaced(seconds: float) -> SchedulingSettings:
    return SchedulingSettings(
        min_interval_seconds=0, min_saving_seconds=0, host_interval_seconds=seconds, backoff_base_seconds=0.4
    )


def gaps(origin: Origin, host: int) -> list[float]:
    """Seconds between the requests that one host got, robots.txt among them."""
    name = origin.url("", host=host).removeprefix("http://")
    times = sorted(hit.at for hit in origin.log if hit.host == name)
    return [later - earlier for earlier, later in itertools.pairwise(times)]


async def lives_on(running: Running, origin: Origin, more: int) -> None:
    """Waits until so many more pages were asked for."""
    seen = len(origin.hits())
    await until(lambda: len(origin.hits()) >= seen + more)


@pytest.fixture
async def slow_origin() -> AsyncIterator[Origin]:
    """Every answer takes a while, so that two requests at once would be seen."""

    async def slowly(request: web.Request) -> web.Response:
        await asyncio.sleep(0.05)
        return web.Response(text=f"<p>{request.path}</p>", content_type="text/html")

    async with Origin() as server:
        server.pages.update({f"/{n}": Page(handler=slowly) for n in range(2000)})
        server.robots = Page("User-agent: *\nAllow: /\n", headers={"Content-Type": "text/plain"})
        yield server


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """By host, when requests were about to be sent (monotonic s). Every second one waited for its connection."""
    times: dict[str, list[float]] = {}
    connect = aiohttp.TCPConnector.connect

    async def slowly(connector: aiohttp.TCPConnector, request: aiohttp.ClientRequest, **named: Any) -> Connection:
        host = request.url.host_port_subcomponent or ""
        connection = await connect(connector, request, **named)
        if len(times.setdefault(host, [])) % 2 == 0:
            await asyncio.sleep(LATE_SECONDS)
        times[host].append(time.monotonic())
        return connection

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", slowly)
    return times


async def test_a_host_is_spaced_from_when_a_request_was_sent(
    origin: Origin, start: Start, sent: dict[str, list[float]]
) -> None:
    """robots.txt is late, and every second page."""
    origin.pages |= {f"/{n}": Page() for n in range(6)}
    async with start(scheduling=spaced(0.4)) as running:
        await running.add(*(origin.url(f"/{n}") for n in range(6)))
        await until(lambda: len(origin.log) >= 6)
    (times,) = sent.values()
    assert np.diff(times).min() >= 0.4 - ROUNDING_SECONDS


async def test_a_request_that_is_repeated_waits_for_its_hosts_turn(origin: Origin, start: Start) -> None:
    """The server drops each connection that it has kept, when something comes over it."""
    served: set[object] = set()

    async def drops(request: web.Request) -> web.Response:
        protocol = request.protocol
        if protocol in served:
            assert request.transport is not None
            request.transport.abort()
        served.add(protocol)
        return web.Response(text="<p>here</p>", content_type="text/html")

    origin.pages["/a"] = Page(handler=drops)
    origin.robots = Page(handler=drops)
    async with start(scheduling=spaced(0.3)) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 4)
        polls = await running.polls(site_id)
    assert {poll.outcome for poll in polls} <= {OutcomeKind.FIRST, OutcomeKind.UNCHANGED}
    assert len(origin.hits("/a")) > len(polls), "some were asked twice"
    assert min(gaps(origin, 1)) >= 0.3 - TOLERANCE_SECONDS


async def test_the_host_of_a_redirect_is_spaced_from_when_a_request_was_sent(
    origin: Origin, start: Start, sent: dict[str, list[float]]
) -> None:
    for n in range(4):
        redirecting(origin, f"/from{n}", host=7)
    origin.pages["/target"] = Page()
    async with start(scheduling=spaced(0.4)) as running:
        await running.add(*(origin.url(f"/from{n}", host=n + 1) for n in range(4)))
        await until(lambda: len(origin.hits("/target")) >= 4)
    times = sent[origin.url("", host=7).removeprefix("http://")]
    assert np.diff(times).min() >= 0.4 - ROUNDING_SECONDS


@pytest.mark.parametrize("kill", [False, True])
async def test_a_long_list_of_one_host(slow_origin: Origin, start: Start, kill: bool) -> None:
    settings = spaced(0.25)
    async with start(budget=1000.0, scheduling=settings, kill=kill) as running:
        await running.add(*(slow_origin.url(f"/{n}") for n in range(2000)))
        await until(lambda: len(slow_origin.log) >= 5)
    for _ in range(2):
        async with start(budget=1000.0, scheduling=settings, kill=kill) as running:
            await lives_on(running, slow_origin, 4)
    assert slow_origin.most_concurrent == 1
    assert min(gaps(slow_origin, 1)) >= 0.25 - TOLERANCE_SECONDS
    assert len(slow_origin.hits("/robots.txt")) == 1, "it was kept"


async def test_killed_before_anything_was_committed(slow_origin: Origin, start: Start) -> None:
    async with start(scheduling=spaced(0.6), kill=True, flush_seconds=1.0) as running:
        await running.add(slow_origin.url("/1"), slow_origin.url("/2"))
        await until(lambda: len(slow_origin.log) == 1)
    async with start(scheduling=spaced(0.6)) as running:
        await until(lambda: len(slow_origin.log) >= 3)
    assert min(gaps(slow_origin, 1)) >= 0.6 - TOLERANCE_SECONDS


async def test_a_fractional_crawl_delay(slow_origin: Origin, start: Start) -> None:
    slow_origin.robots = Page("User-agent: pollerd\nCrawl-delay: 0.4\n")
    for kill in (False, True, False):
        async with start(kill=kill) as running:
            await running.add(slow_origin.url("/1"), slow_origin.url("/2"))
            await lives_on(running, slow_origin, 2)
    assert min(gaps(slow_origin, 1)) >= 0.4 - TOLERANCE_SECONDS
    assert sorted(gaps(slow_origin, 1))[1] < 2.0, "and no slower than asked for"


async def test_a_huge_crawl_delay_is_an_hour_at_most(origin: Origin, start: Start) -> None:
    origin.robots = Page("User-agent: *\nCrawl-delay: 99999999\n")
    origin.pages["/a"] = origin.pages["/b"] = Page()
    async with start() as running:
        (a, b) = await running.add(origin.url("/a"), origin.url("/b"))
        await until(lambda: len(origin.log) == 1)
        await asyncio.sleep(0.4)
    async with start() as running:
        await asyncio.sleep(0.4)
        assert len(origin.log) == 1
        for site_id in (a, b):
            explanation = running.explain(site_id)
            assert explanation.why_not_now == "the host's interval is not over"
            assert explanation.next_poll_at is not None
            assert 3590 < explanation.next_poll_at - time.time() <= 3600


@pytest.mark.parametrize("status", [404, 403, 410])
async def test_no_robots_txt_allows_all(origin: Origin, start: Start, status: int) -> None:
    origin.robots = Page(status=status)
    origin.pages["/a"] = Page()
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 2)
        assert len(origin.hits("/robots.txt")) == 1


async def test_a_path_that_robots_txt_denies(origin: Origin, start: Start) -> None:
    origin.robots = Page("User-agent: *\nDisallow: /private\n")
    origin.pages["/open"] = origin.pages["/private/x"] = Page()
    async with start() as running:
        allowed, denied = await running.add(origin.url("/open"), origin.url("/private/x"))
        await running.polled(allowed, 2)
        (poll,) = await running.polled(denied, 1)
        assert (poll.outcome, poll.changed, poll.bytes) == (OutcomeKind.DENIED, False, 0)
        assert "robots.txt" in poll.detail
        site = await running.site(denied)
        assert site.state is SiteState.BLOCKED
        assert site.next_poll_at is not None
        assert site.next_poll_at > time.time() + 80_000
    async with start() as running:
        await lives_on(running, origin, 3)
        assert (await running.site(denied)).state is SiteState.BLOCKED
    assert not origin.hits("/private/x")
    assert len(origin.hits("/robots.txt")) == 1, "kept over a restart"


@pytest.mark.parametrize("status", [500, 503])
async def test_robots_txt_unreachable_leaves_the_host_alone(origin: Origin, start: Start, status: int) -> None:
    origin.robots = Page(status=status)
    origin.pages["/a"] = Page()
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        (poll, *_) = await running.polled(site_id, 1)
        assert poll.outcome in (OutcomeKind.SERVER_ERROR, OutcomeKind.THROTTLED)
        assert poll.detail == f"robots.txt: HTTP status {status}"
        site = await running.site(site_id)
        assert site.state is SiteState.BACKING_OFF
        assert site.failures >= 1
        assert not origin.hits("/a")
        origin.robots = Page("User-agent: *\nAllow: /\n")
        await until(lambda: running.metric("pollerd_polls_total", outcome="first") == 1)
        site = await running.site(site_id)
        assert (site.state, site.failures) == (SiteState.ACTIVE, 0)


async def test_robots_txt_that_never_comes(origin: Origin, start: Start) -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.sleep(2)
        return web.Response(text="late")

    origin.robots = Page(handler=never)
    origin.pages["/a"] = Page()
    async with start(fetching=FetchSettings(allow_private=True, total_timeout_seconds=0.4)) as running:
        (site_id,) = await running.add(origin.url("/a"))
        (poll, *_) = await running.polled(site_id, 1)
        assert poll.outcome is OutcomeKind.TIMEOUT
        assert poll.detail.startswith("robots.txt:")
        assert not origin.hits("/a")


async def test_redirected_robots_txt_rules_the_host_that_was_asked(origin: Origin, start: Start) -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        if request.host.startswith("127.0.0.2:"):
            return web.Response(status=302, headers={"Location": origin.url("/rules", host=5)})
        return web.Response(status=404)

    origin.robots = Page(handler=elsewhere)
    origin.pages["/rules"] = Page("User-agent: *\nDisallow: /no\n")
    origin.pages["/no"] = origin.pages["/yes"] = Page()
    async with start() as running:
        no, yes = await running.add(origin.url("/no"), origin.url("/yes"))
        assert (await running.polled(no, 1))[0].outcome is OutcomeKind.DENIED
        await running.polled(yes, 2)
        assert not origin.hits("/no")


async def test_the_first_500_kib_of_robots_txt_hold(origin: Origin, start: Start) -> None:
    filler = "# nothing but words\n" * 30_000
    assert len(filler) > 512_000
    origin.robots = Page("User-agent: *\nDisallow: /early\n" + filler + "Disallow: /late\n")
    origin.pages["/early"] = origin.pages["/late"] = Page()
    async with start() as running:
        early, late = await running.add(origin.url("/early"), origin.url("/late"))
        assert (await running.polled(early, 1))[0].outcome is OutcomeKind.DENIED
        assert (await running.polled(late, 1))[0].outcome is OutcomeKind.FIRST


def redirecting(origin: Origin, path: str, *, host: int) -> None:
    origin.pages[path] = Page(status=302, headers={"Location": origin.url("/target", host=host)})


def there_and_back(origin: Origin) -> None:
    """A page that sends to another host, which sends back."""

    async def bounce(request: web.Request) -> web.Response:
        if "back" in request.query:
            return web.Response(text="<p>here</p>", content_type="text/html")
        return web.Response(status=302, headers={"Location": origin.url("/login", host=7)})

    origin.pages["/page"] = Page(handler=bounce)
    origin.pages["/login"] = Page(status=302, headers={"Location": origin.url("/page?back")})


async def test_a_redirect_obeys_the_other_hosts_robots_txt(origin: Origin, start: Start) -> None:
    async def rules(request: web.Request) -> web.Response:
        denies = request.host == origin.url("", host=7).removeprefix("http://")
        return web.Response(text="User-agent: *\nDisallow: /target\n" if denies else "")

    origin.robots = Page(handler=rules)
    redirecting(origin, "/from", host=7)
    origin.pages["/target"] = Page()
    async with start() as running:
        (site_id,) = await running.add(origin.url("/from"))
        (poll,) = await running.polled(site_id, 1)
        assert poll.outcome is OutcomeKind.DENIED
        assert [hop.url for hop in poll.redirects] == [origin.url("/target", host=7)]
        assert (await running.site(site_id)).state is SiteState.BLOCKED
        assert not origin.hits("/target")


async def test_a_redirect_obeys_the_other_hosts_spacing(origin: Origin, start: Start) -> None:
    for n in range(4):
        redirecting(origin, f"/from{n}", host=7)
    origin.pages["/target"] = Page()
    for kill in (False, True, False):
        async with start(scheduling=spaced(0.4), kill=kill) as running:
            await running.add(*(origin.url(f"/from{n}", host=n + 1) for n in range(4)))
            await lives_on(running, origin, 6)
    assert len(origin.hits("/target")) >= 4
    assert min(gaps(origin, 7)) >= 0.4 - TOLERANCE_SECONDS
    assert origin.most_concurrent == 1


async def test_redirects_and_long_rules_leave_a_host_one_request_at_a_time(origin: Origin, start: Start) -> None:
    """Rules that have to be looked up beside the loop hold the host as a request does, and take it from no redirect."""

    async def slowly(_: web.Request) -> web.Response:
        await asyncio.sleep(0.05)
        return web.Response(text="<p>here</p>", content_type="text/html")

    origin.robots = Page("User-agent: *\n" + "".join(f"Disallow: /x{n}\n" for n in range(1000)))
    origin.pages["/target"] = Page(handler=slowly)
    for n in range(3):
        redirecting(origin, f"/from{n}", host=7)
    own = [f"/own{n}" for n in range(8)]
    origin.pages |= {path: Page(handler=slowly) for path in own}
    async with start(budget=1000.0) as running:
        await running.add(*(origin.url(f"/from{n}", host=n + 1) for n in range(3)))
        await until(lambda: len(origin.hits("/target")) >= 3)
        await running.add(*(origin.url(path, host=7) for path in own))
        await until(lambda: all(origin.hits(path) for path in own))
    assert origin.most_concurrent == 1


async def test_a_redirect_to_a_host_that_cannot_be_asked_is_put_off(origin: Origin, start: Start) -> None:
    async def rules(request: web.Request) -> web.Response:
        down = request.host == origin.url("", host=7).removeprefix("http://")
        return web.Response(status=500 if down else 404, headers={"Retry-After": "3000"} if down else {})

    origin.robots = Page(handler=rules)
    redirecting(origin, "/from", host=7)
    async with start() as running:
        (site_id,) = await running.add(origin.url("/from"))
        (poll,) = await running.polled(site_id, 1)
        assert poll.outcome is OutcomeKind.THROTTLED
        assert "cannot be asked now" in poll.detail
        site = await running.site(site_id)
        assert site.state is SiteState.BACKING_OFF, "no refusal for good"
        assert site.next_poll_at is not None
        assert 2900 < site.next_poll_at - time.time() < 3010
        assert not origin.hits("/target")


async def test_a_redirect_within_a_host_obeys_its_spacing(origin: Origin, start: Start) -> None:
    origin.pages["/from"] = Page(status=302, headers={"Location": "/on"})
    origin.pages["/on"] = Page(status=302, headers={"Location": "/target"})
    origin.pages |= {"/target": Page(), "/other": Page()}
    async with start(budget=1000.0, scheduling=spaced(0.3)) as running:
        await running.add(origin.url("/from"), origin.url("/other"))
        await until(lambda: bool(origin.hits("/target") and origin.hits("/other")))
    assert len(origin.log) >= 5, "robots.txt and four requests"
    assert min(gaps(origin, 1)) >= 0.3 - TOLERANCE_SECONDS


async def test_a_redirect_there_and_back_obeys_the_spacing_of_both(origin: Origin, start: Start) -> None:
    there_and_back(origin)
    async with start(budget=1000.0, scheduling=spaced(0.3)) as running:
        (site_id,) = await running.add(origin.url("/page"))
        (poll, *_) = await running.polled(site_id, 1)
        assert poll.outcome is OutcomeKind.FIRST
    for host in (1, 7):
        assert min(gaps(origin, host)) >= 0.3 - TOLERANCE_SECONDS


async def test_a_redirected_robots_txt_obeys_the_spacing_of_each_host(origin: Origin, start: Start) -> None:
    origin.robots = Page(status=302, headers={"Location": "/rules"})
    origin.pages |= {"/rules": Page(status=302, headers={"Location": origin.url("/shared", host=7)})}
    origin.pages |= {"/shared": Page("User-agent: *\nDisallow: /no\n"), "/yes": Page()}
    async with start(budget=1000.0, scheduling=spaced(0.3)) as running:
        await running.add(*(origin.url("/yes", host=host) for host in (1, 2, 3, 7)))
        await until(lambda: len({hit.host for hit in origin.hits("/yes")}) == 4)
    assert len(origin.hits("/shared")) >= 3
    for host in (1, 2, 3, 7):
        assert min(gaps(origin, host)) >= 0.3 - TOLERANCE_SECONDS


async def test_a_spacing_that_is_very_long_does_not_end_a_redirect(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots, "WAIT_SECONDS", 0.2)
    origin.pages["/from"] = Page(status=302, headers={"Location": "/target"})
    origin.pages["/target"] = Page()
    async with start(scheduling=spaced(3.0)) as running:
        (site_id,) = await running.add(origin.url("/from"))
        (poll, *_) = await running.polled(site_id, 1)
        assert poll.outcome is OutcomeKind.FIRST
    (first,), (second, *_) = origin.hits("/from"), origin.hits("/target")
    assert second.at - first.at < 3.0, "it waited no longer than it may"


async def test_a_redirect_there_and_back_waits_for_no_turn(origin: Origin, start: Start) -> None:
    there_and_back(origin)
    async with start() as running:
        (site_id,) = await running.add(origin.url("/page"))
        (poll, *_) = await running.polled(site_id, 1)
        assert poll.outcome is OutcomeKind.FIRST


async def test_retry_after_as_a_date(origin: Origin, start: Start) -> None:
    async def busy(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": formatdate(time.time() + 120, usegmt=True)})

    origin.pages["/busy"] = Page(handler=busy)
    async with start() as running:
        (site_id,) = await running.add(origin.url("/busy"))
        await running.polled(site_id, 1)
        at = running.explain(site_id).next_poll_at
        assert at is not None
        assert 115 < at - time.time() < 125


async def slow_429(request: web.Request) -> web.StreamResponse:
    """The head comes at once, the body for as long as somebody waits for it."""
    response = web.StreamResponse(status=429)
    await response.prepare(request)
    for _ in range(60):
        await response.write(b"slow down ")
        await asyncio.sleep(0.05)
    return response


@pytest.mark.parametrize("moved", [False, True])
async def test_no_request_goes_between_a_slow_429_and_the_pause(origin: Origin, start: Start, moved: bool) -> None:
    """The host has other sites, which are due, and its interval is over long before the answer ends."""
    origin.pages |= {"/target": Page(handler=slow_429), "/b": Page(), "/c": Page()}
    redirecting(origin, "/from", host=7)
    host = origin.url("", host=7).removeprefix("http://")
    settings = SchedulingSettings(min_interval_seconds=0, min_saving_seconds=0, host_interval_seconds=0.2)
    async with start(scheduling=settings, flush_seconds=1.0, gather_seconds=1.0) as running:
        (site_id,) = await running.add(origin.url("/from", host=1) if moved else origin.url("/target", host=7))
        await until(lambda: bool(origin.hits("/robots.txt")) and origin.concurrent.get(host, 0) > 0)
        await running.add(origin.url("/b", host=7), origin.url("/c", host=7))
        (poll,) = await running.polled(site_id, 1)
        assert (poll.outcome, poll.status) == (OutcomeKind.THROTTLED, 429)
        assert not origin.hits("/b") + origin.hits("/c")


async def test_a_429_for_robots_txt_pauses_the_host_whose_rules_are_known(origin: Origin, start: Start) -> None:
    origin.pages |= {"/a": Page()}
    origin.robots = Page("User-agent: *\nAllow: /\n")
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 2)
        origin.robots = Page(status=429, headers={"Retry-After": "3000"})
        hosts = running.daemon.parts.scheduler.hosts
        hosts.robots_at[0] -= 2 * 86_400.0
        running.daemon.parts.scheduler.due.set()
        await until(lambda: hosts.paused_until[0] > 0)
        assert hosts.paused_until[0] - time.time() > 2900


async def test_an_outage_of_our_own_link_is_no_line_a_second(origin: Origin, start: Start) -> None:
    """Hosts whose robots.txt is not known are tried every second."""
    with structlog.testing.capture_logs() as lines:
        async with start(budget=100.0) as running:
            urls = [f"http://127.3.0.{n}:9/" for n in range(1, 31)]  # nothing listens there
            await running.add(*urls)
            await until(lambda: running.metric("pollerd_robots_fetches_total", result="unreachable") >= 25)
    said = [line for line in lines if line["event"] == "robots_unreachable"]
    assert len(said) == 1
