"""A whole daemon on a real store and a real loopback origin."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from pollerd.app.build import LiveSettings, live_daemon
from pollerd.crawler.topics import TopicSettings
from pollerd.daemon.control.control import Control
from pollerd.daemon.daemon import Daemon
from pollerd.daemon.process import SteadyClock
from pollerd.daemon.settings import DaemonSettings, SignalSettings
from pollerd.daemon.views import ExplanationView
from pollerd.fetching.settings import FetchSettings
from pollerd.model import Change, Poll, Site
from pollerd.notifications.settings import NotificationSettings
from pollerd.rendering.settings import RenderingSettings
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec
from pollerd.storage.encoding import Order
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.telemetry import Instruments
from pollerd.urls import normalise_url
from tests.support.origin import Origin, until
from tests.support.postgres import postgres_database
from tests.support.stores import empty_database as empty_database
from tests.support.stores import statements_are_compiled_once as statements_are_compiled_once

FAST = SchedulingSettings(
    min_interval_seconds=0, min_saving_seconds=0, host_interval_seconds=0, backoff_base_seconds=0.4
)


class Running:
    """A daemon under way, and what a test asks of it."""

    def __init__(self, daemon: Daemon, store: Store, registry: CollectorRegistry, task: asyncio.Task[None]) -> None:
        self.daemon, self.store, self.registry, self.task = daemon, store, registry, task

    @property
    def control(self) -> Control:
        return self.daemon.control

    async def add(self, *urls: str, **fields: Any) -> list[int]:
        specs = [SiteSpec(url=normalise_url(url), **fields) for url in urls]
        return [site_id for site_id, _, _ in (await self.control.sites.add(specs)).added]

    async def site(self, site_id: int) -> Site:
        return await self.store.sites.get(site_id)

    async def polls(self, site_id: int) -> list[Poll]:
        """All polls of the site, oldest first."""
        found = page = await self.store.history.list_polls(site_id, limit=1000, order=Order.OLDEST)
        while page.next_cursor is not None:
            page = await self.store.history.list_polls(site_id, 1000, page.next_cursor)
            found.items.extend(page.items)
        return found.items

    async def changes(self) -> list[Change]:
        """All changes, oldest first."""
        found = page = await self.store.changes.page(limit=1000, order=Order.OLDEST)
        while page.next_cursor is not None:
            page = await self.store.changes.page(limit=1000, cursor=page.next_cursor)
            found.items.extend(page.items)
        return found.items

    async def polled(self, site_id: int, times: int, seconds: float = 60.0) -> list[Poll]:
        """Waits until the site has that many committed polls, of which the daemon knows."""
        deadline = time.monotonic() + seconds
        while len(found := await self.polls(site_id)) < times or not self._knows(site_id, len(found)):
            assert time.monotonic() < deadline, f"site {site_id}: {len(found)} polls, wanted {times}"
            await asyncio.sleep(0.03)
        return found

    def _knows(self, site_id: int, polls: int) -> bool:
        """Whether so many polls count: in the database a commit may be seen before its answer is here."""
        sites = self.daemon.parts.scheduler.sites
        slot = sites.slot_of(site_id)
        return slot is None or int(sites.polls[slot]) >= polls  # None: another node has it, or it was deleted

    async def settled(self) -> None:
        """Waits until all polls that were under way are committed, and count. Paused sites are polled no more then."""
        sites = self.daemon.parts.scheduler.sites
        await until(lambda: not sites.in_flight[: sites.size].any())
        await self.daemon.parts.journal.flush()

    def explain(self, site_id: int) -> ExplanationView:
        """Why the site is polled as it is; the daemon knows it."""
        explanation = self.control.explainer.explain(site_id)
        assert explanation is not None
        return explanation

    def metric(self, name: str, **labels: str) -> float:
        self.daemon.control.gauges.refresh()
        return self.registry.get_sample_value(name, labels) or 0.0


Start = Callable[..., contextlib.AbstractAsyncContextManager[Running]]


def steady_clock(on_set: Callable[[float], None]) -> SteadyClock:
    """The clock of the daemons that `start` starts."""
    return SteadyClock(on_set=on_set)


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin() as server:
        yield server


@pytest.fixture
def database(tmp_path: Path, empty_database: Path) -> str:
    return f"sqlite+aiosqlite:///{shutil.copy(empty_database, tmp_path / 'poll.db')}"


@pytest.fixture(params=["sqlite", "postgres"])
def any_database(request: pytest.FixtureRequest, database: str) -> Iterator[str]:
    if request.param == "sqlite":
        yield database
    else:
        with postgres_database() as url:
            yield url


@pytest.fixture
def start(database: str, tmp_path: Path) -> Start:
    """`async with start(budget=50, ...) as running`: starts a daemon, stops it at the end."""

    @contextlib.asynccontextmanager
    async def starter(
        *,
        scheduling: SchedulingSettings = FAST,
        fetching: FetchSettings | None = None,
        url: str = database,
        kill: bool = False,
        storage: StorageSettings | None = None,
        topic: TopicSettings | None = None,
        seeds: Sequence[str] = (),
        rendering: RenderingSettings | None = None,
        private_channels: bool = False,
        signals: SignalSettings | None = None,
        **settings: Any,
    ) -> AsyncIterator[Running]:
        soon = {"flush_seconds": 0.05, "gather_seconds": 0.05}
        chosen = DaemonSettings(**{"budget": 50.0, "allocator": "uniform", **soon, **settings})
        store = await Store.open(url, settings=storage)
        registry = CollectorRegistry()
        fetch_settings = fetching or FetchSettings(allow_private=True, total_timeout_seconds=5)
        try:
            instruments, rng = Instruments(registry, "test"), np.random.default_rng(1)
            live = LiveSettings(
                daemon=chosen,
                scheduling=scheduling,
                fetching=fetch_settings,
                topic=topic,
                seeds=seeds,
                rendering=rendering,
                notifying=NotificationSettings(allow_private_channels=private_channels),
                signals=signals or SignalSettings(),
            )
            async with live_daemon(store, live, instruments, rng, make_clock=steady_clock) as daemon:
                task = asyncio.create_task(daemon.run())
                running = Running(daemon, store, registry, task)
                try:
                    yield running
                finally:
                    if kill:
                        task.cancel()
                    daemon.stop()
                    with contextlib.suppress(asyncio.CancelledError):
                        await running.task
        finally:
            await store.close()
            if kill:
                await _let_go(tmp_path / "poll.db")

    return starter


async def _let_go(path: Path) -> None:
    """Waits until nobody holds SQLite's lock: a killed process gives it back, a task's thread may be at work."""
    for _ in range(100 if path.exists() else 0):
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=0)) as database:
                database.execute("BEGIN IMMEDIATE")
                return
        except sqlite3.OperationalError:
            gc.collect()
            await asyncio.sleep(0.1)
