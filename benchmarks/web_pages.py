"""How long the web pages take: server time, bytes, and what streams and readers cost the loop.

    python benchmarks/web_pages.py [--sites 50000] [--rounds 30] [--streams 50]

A daemon that is built, but does not poll, over a database with so many sites, of which one in fifty has a history of
ten polls. Each page is asked for `rounds` times, one after the other. Then `streams` readers follow all event types
for ten seconds while 100 polls a second are committed, and the loop's share is the CPU time of the process beside that
without readers.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import resource
import socket
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from pollerd.api.application import create_api
from pollerd.api.server import ApiServer
from pollerd.api.settings import ApiSettings
from pollerd.app.build import LiveSettings, live_daemon
from pollerd.daemon.daemon import Daemon
from pollerd.model import Baseline, Media, OutcomeKind, Poll, SiteState
from pollerd.site_settings import SiteSpec
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, ChangeDraft, PollRecord, SiteContext
from pollerd.telemetry import Instruments
from pollerd.web.application import add_pages

PATHS = ("/", "/sites", "/sites?q=page-12", "/sites?tag=t7", "/sites?state=paused", "/sites/1", "/sites/1/polls")
MORE = ("/changes", "/changes?show=all", "/changes/1", "/rules", "/system", "/sites/import")
PIECE = 5_000
WATCHED_EVERY = 50
POLLS_EACH = 10
STREAM_SECONDS = 10.0
FORECAST_SECONDS = 5.0
POLLS_A_SECOND = 100


def url_of(n: int) -> str:
    """The n-th site's address, from 1."""
    return f"https://host-{n // 20}.example.org/page-{n}"


async def filled(daemon: Daemon, store: Store, sites: int) -> None:
    """Adds sites and histories."""
    for first in range(1, sites + 1, PIECE):
        numbers = range(first, min(first + PIECE, sites + 1))
        specs = [SiteSpec(url_of(n), title=f"Page {n}", tags=(f"t{n % 20}",), paused=n % 7 == 0) for n in numbers]
        await daemon.control.sites.add(specs)
    now = time.time()
    watched = range(1, sites + 1, WATCHED_EVERY)
    for n in range(POLLS_EACH):
        for first in range(0, len(watched), 500):
            at = now - 3_600.0 * (POLLS_EACH - n)
            await store.commit(Batch([_record(site_id, n, at) for site_id in watched[first : first + 500]]))


def _record(site_id: int, n: int, at: float) -> PollRecord:
    changed = n > 0 and (site_id + n) % 4 == 0
    outcome = OutcomeKind.FIRST if n == 0 else OutcomeKind.CHANGED if changed else OutcomeKind.UNCHANGED
    return PollRecord(
        poll=Poll(site_id, at, 3_600.0 if n else None, outcome, 200, 0.1, 900, changed),
        context=SiteContext(
            site_id, url_of(site_id), baseline=Baseline(fingerprint=n.to_bytes(16, "big"), media=Media.HTML)
        ),
        state=SiteState.ACTIVE,
        last_seen_at=at,
        content=f"words\nversion {n}\n".encode() if changed or n == 0 else None,
        change=ChangeDraft(Media.HTML, f"1 line changed: version {n}", at - 3_600.0) if changed else None,
    )


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    """The app on a loopback port: its root URL."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        server = ApiServer(app, drain_seconds=1)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


async def timed(session: aiohttp.ClientSession, root: str, path: str, rounds: int) -> tuple[list[float], int]:
    """Seconds of each round, and the page's bytes by gzip."""
    taken, size = [], 0
    for _ in range(rounds):
        began = time.perf_counter()
        async with session.get(root + path) as answer:
            body = await answer.read()
            if answer.status != 200:
                raise SystemExit(f"{path}: {answer.status} {body[:200]!r}")
        taken.append(time.perf_counter() - began)
        size = len(gzip.compress(body, 6))
    return taken, size


async def cpu_while_polls_come(daemon: Daemon, store: Store, readers: int, root: str) -> float:
    """CPU seconds of this process while polls are committed and so many streams are read."""

    async def read(session: aiohttp.ClientSession) -> None:
        url = f"{root}/api/v1/events?types=change,polls,health"
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as answer:
            async for _ in answer.content.iter_any():
                pass

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        tasks = [asyncio.create_task(read(session)) for _ in range(readers)]
        await asyncio.sleep(1.0)
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.monotonic()
        for n in range(int(STREAM_SECONDS * 4)):
            records = [_record(1 + WATCHED_EVERY * m, 0, time.time()) for m in range(POLLS_A_SECOND // 4)]
            daemon.control.poll_feed.note(records)
            await store.commit(Batch([_record(1, 100 + n, time.time())]))
            await asyncio.sleep(max(began + (n + 1) / 4 - time.monotonic(), 0.0))
        after = resource.getrusage(resource.RUSAGE_SELF)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def run(sites: int, rounds: int, streams: int, database: str) -> None:
    """Measures and prints."""
    async with AsyncExitStack() as stack:
        store = await Store.open(database)
        stack.push_async_callback(store.close)
        registry = CollectorRegistry()
        rng = np.random.default_rng(1)
        daemon = await stack.enter_async_context(live_daemon(store, LiveSettings(), Instruments(registry, "1"), rng))
        began = time.perf_counter()
        await filled(daemon, store, sites)
        print(f"{sites:,} sites were added in {time.perf_counter() - began:.0f} s")
        daemon.parts.scheduler.sites.eligibility.update(time.time(), 20.0)  # as each choice of a daemon that polls
        forecast = asyncio.create_task(daemon.parts.gauges.follow_forecast())  # as in a daemon that runs
        stack.callback(forecast.cancel)
        await asyncio.sleep(FORECAST_SECONDS)
        app: Any = create_api(daemon.control, store, registry, ApiSettings(), "1")
        add_pages(app)
        root = await stack.enter_async_context(served(app))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        for path in (*PATHS, *MORE):
            taken, size = await timed(session, root, path, rounds)
            first, median, worst = (1000 * one for one in (taken[0], statistics.median(taken), max(taken[1:])))
            print(f"{path:24} first {first:7.1f} ms  median {median:7.1f} ms  worst {worst:7.1f} ms  {size:7,} bytes")
        alone = await cpu_while_polls_come(daemon, store, 0, root)
        watched = await cpu_while_polls_come(daemon, store, streams, root)
        share = (watched - alone) / STREAM_SECONDS
        print(f"{streams} streams for {STREAM_SECONDS:g} s: {share:.2%} of a core more, their readers' part included")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--streams", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pollerd-pages-") as folder:
        database = f"sqlite+aiosqlite:///{Path(folder) / 'poll.db'}"
        asyncio.run(run(given.sites, given.rounds, given.streams, database))


if __name__ == "__main__":
    main()
