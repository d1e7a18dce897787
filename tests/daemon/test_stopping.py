"""Every way to an end: asked for, asked for twice, in the middle of polls, by a signal, by a fault of ours."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import time
from pathlib import Path

import pytest
from aiohttp import web

from pollerd.model import OutcomeKind
from pollerd.storage.store import Store
from tests.daemon.conftest import Running, Start
from tests.support.origin import Handler, Origin, Page, until
from tests.support.process import daemon_in_new_interpreter


def taking(seconds: float) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        await asyncio.sleep(seconds)
        return web.Response(text="<p>at last</p>", content_type="text/html")

    return handler


async def previous_clean(database: str) -> bool:
    store = await Store.open(database)
    try:
        return (await store.runs.start("test", time.time())).previous_clean
    finally:
        await store.close()


async def under_way(running: Running, origin: Origin) -> None:
    """Waits until a page request has come to its server, past robots.txt."""
    await until(lambda: bool(origin.hits("/robots.txt")) and sum(origin.concurrent.values()) == 1)
    assert running.control.health.status().in_flight == 1


async def test_stopped_before_it_started(start: Start, database: str) -> None:
    async with start() as running:
        running.daemon.stop()  # its task has had no turn yet
        await asyncio.wait_for(asyncio.shield(running.task), 60)
    assert await previous_clean(database)


async def test_stopped_twice(origin: Origin, start: Start, database: str) -> None:
    origin.pages["/a"] = Page()
    async with start() as running:
        (site_id,) = await running.add(origin.url("/a"))
        await running.polled(site_id, 2)
        running.daemon.stop()
        running.daemon.stop()
        await asyncio.wait_for(asyncio.shield(running.task), 60)
        running.daemon.stop()
        assert len(await running.polls(site_id)) == len(origin.hits("/a")), "every poll was committed"
    assert await previous_clean(database)


async def test_polls_in_flight_are_waited_for(origin: Origin, start: Start, database: str) -> None:
    origin.pages["/slow"] = Page(handler=taking(0.8))
    async with start() as running:
        (site_id,) = await running.add(origin.url("/slow"))
        await under_way(running, origin)
        running.daemon.stop()
        await asyncio.wait_for(asyncio.shield(running.task), 60)
        (poll,) = await running.polls(site_id)
        assert poll.outcome is OutcomeKind.FIRST
    assert await previous_clean(database)


async def test_a_poll_that_takes_too_long_is_called_off(origin: Origin, start: Start, database: str) -> None:
    origin.pages["/slow"] = Page(handler=taking(4))
    async with start(drain_seconds=0.3) as running:
        (site_id,) = await running.add(origin.url("/slow"))
        await under_way(running, origin)
        running.daemon.stop()
        await asyncio.wait_for(asyncio.shield(running.task), 60)
        assert running.control.health.status().in_flight == 0
        assert not await running.polls(site_id), "it never happened"
    assert not await previous_clean(database), "a start that left no row: the next run paces itself as after a crash"


async def test_hosts_not_asked_yet_do_not_hold_up_the_end(origin: Origin, start: Start) -> None:
    async with start(budget=0.5) as running:
        await running.add(*(origin.url("/", host=n) for n in range(50)))
        await until(lambda: running.control.health.status().in_flight > 10)
        asked = len(origin.log)
        running.daemon.stop()
        await asyncio.wait_for(asyncio.shield(running.task), 60)
        assert len(origin.log) <= asked + 1


@pytest.mark.parametrize(
    "part",
    [
        "commit.Journal.flush",
        "explain.ScheduleExplainer.late_sites",
        "outage_filter.OutageFilter.put",
        "poll.Cadence.chose",
    ],
)
async def test_a_part_that_dies_takes_the_daemon_down_with_its_cause(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    cause = RuntimeError("our own fault")

    def broken(*_: object, **_named: object) -> None:
        raise cause

    monkeypatch.setattr("pollerd.daemon.gauges.FORECAST_SECONDS", 0.2)
    async with start() as running:
        monkeypatch.setattr(f"pollerd.daemon.{part}", broken)
        await running.add(*(origin.url(f"/{n}", host=n) for n in range(5)))
        with pytest.raises(ExceptionGroup) as caught:
            await asyncio.wait_for(asyncio.shield(running.task), 60)
        assert cause in caught.value.exceptions
        assert running.control.health.status().in_flight == 0, "nothing is left behind"
        seen = len(origin.log)
        await asyncio.sleep(0.3)
        assert len(origin.log) == seen
        with contextlib.suppress(ExceptionGroup):
            await running.task
        running.task = asyncio.create_task(asyncio.sleep(0))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_cleanly(
    origin: Origin, database: str, tmp_path: Path, number: signal.Signals
) -> None:
    origin.pages["/a"] = Page(handler=taking(0.5))
    urls = tmp_path / "urls.txt"
    urls.write_text(origin.url("/a"))
    async with daemon_in_new_interpreter(database, tmp_path / "log", str(urls)) as daemon:
        await daemon.said("list_read")
        await until(lambda: bool(origin.log))
        daemon.send(number)
        daemon.send(number)  # an impatient second one changes nothing
        assert await daemon.ended() == 0
        assert "event=stopped" in daemon.log
        assert "Traceback" not in daemon.log
    assert await previous_clean(database)


async def test_a_client_that_never_finishes_its_request_does_not_hold_up_the_end(database: str, tmp_path: Path) -> None:
    async with daemon_in_new_interpreter(database, tmp_path / "log") as daemon:
        await daemon.said("event=started")
        port = int(re.findall(r"listen=127\.0\.0\.1:(\d+)", daemon.log)[0])
        for _ in range(200):  # it listens a moment after it says so
            with contextlib.suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            await asyncio.sleep(0.02)
        writer.write(b"POST /api/v1/sites/import HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n")
        writer.write(b"Content-Length: 100\r\n\r\nhttp://")
        await writer.drain()
        await asyncio.sleep(0.3)
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
        writer.close()
