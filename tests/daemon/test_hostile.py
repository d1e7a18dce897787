"""Servers, clocks and users that nobody has asked for."""

from __future__ import annotations

import asyncio
import sqlite3
import time

import pytest
from aiohttp import web

from pollerd.daemon import outage_filter
from pollerd.model import OutcomeKind, SiteState
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.values import Batch, CommitResult
from tests.daemon.conftest import Start
from tests.support.origin import Origin, Page, until


async def test_a_site_moved_while_its_poll_waits_is_not_asked_at_its_old_address(origin: Origin, start: Start) -> None:
    origin.pages = {"/a": Page(), "/b": Page(), "/new": Page()}
    async with start(budget=0.2) as running:
        ids = await running.add(origin.url("/a"), origin.url("/b"))
        await until(lambda: len(origin.hits()) == 1)
        polled = origin.hits()[0].path
        moved = ids[1] if polled == "/a" else ids[0]
        await asyncio.sleep(0.5)
        await running.control.sites.update(moved, {"url": origin.url("/new")})
        await until(lambda: bool(origin.hits("/new")))
        assert {hit.path for hit in origin.hits()} == {polled, "/new"}
        (poll,) = await running.polled(moved, 1)
        assert poll.outcome is OutcomeKind.FIRST


async def test_a_site_moved_while_its_poll_is_being_committed_starts_afresh(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages = {"/a": Page(), "/new": Page()}
    async with start() as running:
        commit = running.store.commit

        async def moved_meanwhile(batch: Batch) -> CommitResult:
            if batch.records:
                monkeypatch.undo()
                await running.control.sites.update(batch.records[0].poll.site_id, {"url": origin.url("/new")})
            return await commit(batch)

        monkeypatch.setattr(running.store, "commit", moved_meanwhile)
        (site_id,) = await running.add(origin.url("/a"), min_interval=1000.0)
        (poll,) = await running.polled(site_id, 1)
        assert (poll.outcome, poll.elapsed) == (OutcomeKind.FIRST, None)
        assert len(origin.hits("/a")) == len(origin.hits("/new")) == 1


async def test_a_dead_host_counts_at_once_where_no_other_is_polled(origin: Origin, start: Start) -> None:
    async with start() as running:
        (other,) = await running.add(origin.url("/a", host=1))
        await running.control.sites.pause(other, True)
        (dead,) = await running.add("http://127.0.0.9:9/")
        (first, *_) = await running.polled(dead, 1)
        assert first.outcome is OutcomeKind.CONNECT_ERROR
        assert (await running.site(dead)).state is SiteState.BACKING_OFF


async def test_a_dead_host_counts_in_the_end_while_the_others_rest(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_filter, "PATIENCE_SECONDS", 0.5)
    origin.pages["/a"] = Page()
    async with start() as running:
        (other,) = await running.add(origin.url("/a"), min_interval=1000.0)
        await running.polled(other, 1)
        (dead,) = await running.add("http://127.0.0.9:9/")
        await running.polled(dead, 2)


async def test_a_probe_asks_for_robots_txt_before_the_page(origin: Origin, start: Start) -> None:
    origin.pages["/a"] = Page()
    origin.robots = Page("User-agent: *\nDisallow: /a\n", headers={"Content-Type": "text/plain"})
    await origin.stop()
    async with start() as running:
        await running.add(*(origin.url("/a", host=n) for n in range(4)))
        await until(lambda: running.control.health.status().offline)
        await origin.start()
        await until(lambda: running.metric("pollerd_polls_total", outcome="denied") == 4, 30)
        assert origin.log
        assert not origin.hits()


async def test_times_left_by_a_clock_that_ran_ahead_keep_no_site_waiting(
    origin: Origin, start: Start, database: str
) -> None:
    origin.pages["/a"] = Page()
    settings = SchedulingSettings(
        min_interval_seconds=0.5, min_saving_seconds=0, host_interval_seconds=0.2, backoff_cap_seconds=1.0
    )
    async with start(scheduling=settings) as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 1)
    with sqlite3.connect(database.removeprefix("sqlite+aiosqlite:///")) as connection:
        connection.execute("UPDATE site_state SET last_poll_at = last_poll_at + 1e7, last_seen_at = last_seen_at + 1e7")
        connection.execute("UPDATE host SET last_start_at = ?", (time.time() + 1e7,))
    connection.close()
    seen = len(origin.hits())
    async with start(scheduling=settings):
        await until(lambda: len(origin.hits()) >= seen + 2)


async def test_throttling_behind_a_redirect_pauses_the_host_that_throttles(origin: Origin, start: Start) -> None:
    async def throttled(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "600"})

    async def moved(_: web.Request) -> web.Response:
        raise web.HTTPFound(origin.url("/busy", host=2))

    origin.pages |= {"/busy": Page(handler=throttled), "/moved": Page(handler=moved), "/a": Page(), "/b": Page()}
    async with start() as running:
        (site_id,) = await running.add(origin.url("/moved", host=1))
        (poll,) = await running.polled(site_id, 1)
        assert poll.outcome is OutcomeKind.THROTTLED
        innocent, same_host = await running.add(origin.url("/a", host=1), origin.url("/b", host=2))
        await running.polled(innocent, 5)
        assert not origin.hits("/b")
        assert running.explain(same_host).why_not_now == "the host asked to be left alone"


async def test_an_enormous_robots_txt_is_obeyed_as_far_as_it_is_read(origin: Origin, start: Start) -> None:
    rules = "".join(f"Disallow: /x{n}*y\n" for n in range(15_000))
    origin.robots = Page(f"User-agent: *\n{rules}Disallow: /a\n", headers={"Content-Type": "text/plain"})
    origin.pages |= {"/a": Page(), "/b": Page()}
    async with start() as running:
        denied, allowed = await running.add(origin.url("/a"), origin.url("/b"))
        await running.polled(allowed, 2)
        (poll,) = await running.polled(denied, 1)
        assert poll.outcome is OutcomeKind.DENIED
        assert not origin.hits("/a")
