"""Nothing wakes more often than something is due: turns of the loop are counted, not seconds."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from pollerd.daemon.process import LagWatch
from pollerd.daemon.stages import SiteCache
from pollerd.scheduling.choice import next_due
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable
from pollerd.storage.values import SiteContext
from pollerd.telemetry import Instruments
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

QUIET = SchedulingSettings(min_interval_seconds=1000.0, min_saving_seconds=0, host_interval_seconds=0.2)


class HostReservations:
    """How often the event loop has waited for something to happen."""

    def __init__(self) -> None:
        self.count = 0


@contextlib.contextmanager
def counted() -> Iterator[HostReservations]:
    """Counts the turns of the running loop."""
    turns = HostReservations()
    select, here = selectors.DefaultSelector.select, threading.get_ident()

    def counting(selector: selectors.DefaultSelector, timeout: float | None = None) -> object:
        turns.count += threading.get_ident() == here
        return select(selector, timeout)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selectors.DefaultSelector, "select", counting)
        yield turns


async def turns_in(seconds: float) -> int:
    """Turns of the loop in so long, without those of this wait itself."""
    with counted() as turns:
        await asyncio.sleep(seconds)
    assert turns.count > 0, "the loop is one that waits with a selector"
    return turns.count


async def all_polled(running: Running, ids: list[int]) -> None:
    """Each once, and committed."""
    await until(lambda: running.control.health.status().polls == len(ids))
    await until(lambda: running.control.health.status().in_flight == 0)


async def test_a_daemon_with_nothing_due_sleeps(origin: Origin, start: Start) -> None:
    origin.pages |= {f"/{n}": Page() for n in range(8)}
    async with start(scheduling=QUIET) as running:
        ids = await running.add(*(origin.url(f"/{n}", host=n % 4) for n in range(8)))
        await all_polled(running, ids)
        await asyncio.sleep(2.0)
        assert await turns_in(4.0) <= 10, "the forecast and old connections are looked at, now and then"
        assert running.control.health.alive()
        assert running.metric("pollerd_dispatch_age_seconds") == 0
        before = len(origin.hits())
        await running.control.sites.poll_now(ids[0])
        await until(lambda: len(origin.hits()) > before)
        (new,) = await running.add(origin.url("/7", host=9))
        await running.polled(new, 1)


async def test_turns_follow_the_polls(origin: Origin, start: Start) -> None:
    origin.pages |= {f"/{n}": Page(etag='"1"') for n in range(6)}
    settings = SchedulingSettings(min_interval_seconds=2.0, min_saving_seconds=0, host_interval_seconds=0.0)
    async with start(scheduling=settings, flush_seconds=0.25) as running:
        ids = await running.add(*(origin.url(f"/{n}", host=n) for n in range(6)))
        await all_polled(running, ids)
        await asyncio.sleep(1.0)
        before = len(origin.hits())
        turns = await turns_in(8.0)
        polls = len(origin.hits()) - before
        assert polls >= 6
        assert turns <= 120 * polls, "a poll with the server that answers it, and its commit in another thread"


async def test_slow_servers_do_not_keep_the_loop_awake(origin: Origin, start: Start) -> None:
    """Also where as many polls as may be are under way."""

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(4.0)
        return web.Response(text="late")

    origin.pages |= {f"/{n}": Page(handler=slow) for n in range(6)}
    async with start(scheduling=QUIET, max_inflight=3) as running:
        await running.add(*(origin.url(f"/{n}", host=n) for n in range(6)))
        await until(lambda: sum(origin.concurrent.values()) == 3)
        await asyncio.sleep(0.5)
        turns = await turns_in(2.0)
        assert turns <= 10
        assert running.control.health.alive()


@pytest.mark.parametrize("budget", [0.05, 0.5])
async def test_a_small_budget_waits_in_one_sleep(origin: Origin, start: Start, budget: float) -> None:
    origin.pages |= {f"/{n}": Page() for n in range(40)}
    settings = SchedulingSettings(min_interval_seconds=0.0, min_saving_seconds=0, host_interval_seconds=0.0)
    async with start(scheduling=settings, budget=budget) as running:
        await running.add(*(origin.url(f"/{n}", host=n % 3) for n in range(40)))
        await until(lambda: len(origin.hits()) >= 1)
        await asyncio.sleep(1.0)
        before = len(origin.log)
        turns = await turns_in(3.0)
        assert turns <= 15 + 120 * (len(origin.log) - before)
        assert running.control.health.alive()


async def test_a_loop_that_stands_still_is_not_alive(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/a"] = Page()
    async with start(scheduling=QUIET) as running:
        ids = await running.add(origin.url("/a"))
        await all_polled(running, ids)
        stuck, get = asyncio.Event(), SiteCache.get

        async def hang(cache: SiteCache, site_ids: Sequence[int]) -> Mapping[int, SiteContext]:
            await stuck.wait()
            return await get(cache, site_ids)

        monkeypatch.setattr(SiteCache, "get", hang)
        assert running.control.health.alive()
        await running.control.sites.poll_now(ids[0])
        began = time.monotonic()
        await until(lambda: not running.control.health.alive())
        assert time.monotonic() - began >= 0.9
        stuck.set()


def tables(count: int) -> tuple[SiteTable, HostTable]:
    sites, hosts = SiteTable(), HostTable(SchedulingSettings(min_saving_seconds=0, host_interval_seconds=1.0))
    slots = sites.add(range(1, count + 1))
    for slot in slots:
        sites.host[slot] = hosts.add(int(slot), f"h{slot}:80")
        hosts.set_rules(int(slot), None, 1000.0)
    sites.last_poll[slots] = 1000.0
    return sites, hosts


def test_when_the_next_site_is_due() -> None:
    sites, hosts = tables(3)
    assert next_due(sites, hosts, 1000.0, 30.0) == 30.0
    sites.put("min_interval", 1, 7.0)
    assert next_due(sites, hosts, 1000.0, 30.0) == 7.0
    hosts.pause(1, 1020.0)
    assert next_due(sites, hosts, 1000.0, 30.0) == 20.0
    sites.asap[2] = True
    hosts.last_start[2] = 999.5
    assert next_due(sites, hosts, 1000.0, 30.0) == 0.5
    sites.not_before[2] = 1003.0
    assert next_due(sites, hosts, 1000.0, 30.0) == 3.0
    sites.paused[2] = True
    sites.in_flight[1] = True
    assert next_due(sites, hosts, 1000.0, 30.0) == 20.0
    sites.paused[:3] = True
    assert np.isinf(next_due(sites, hosts, 1000.0, 30.0))
    assert next_due(sites, hosts, 5000.0, 30.0) == np.inf


async def test_a_late_turn_is_told_whether_or_not_polls_are_under_way() -> None:
    registry = CollectorRegistry()
    watch = LagWatch(Instruments(registry, "test"))
    assert watch.worst() == 0.0
    watch.mark()
    time.sleep(0.1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0.1 <= watch.worst() < 10.0
    watch.begin()
    await asyncio.sleep(0)
    time.sleep(0.3)
    await asyncio.sleep(0.01)
    watch.end()
    assert watch.worst() >= 0.2
    assert registry.get_sample_value("pollerd_event_loop_lag_seconds") == watch.worst()
