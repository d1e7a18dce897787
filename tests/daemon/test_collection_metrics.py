"""The topic robot's collection as metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from pollerd.daemon import Daemon, DaemonSettings, SteadyClock
from pollerd.errors import DatabaseUnavailableError
from pollerd.fetching import Fetcher, FetchSettings
from pollerd.scheduling import SchedulingSettings
from pollerd.storage import Store
from pollerd.telemetry import Instruments
from tests.support.collections import fill


async def test_what_was_seen_last_stays_while_the_database_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = CollectorRegistry()

    def shown(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"pollerd_collection_{name}", labels)

    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}")
    try:
        async with Fetcher(FetchSettings()) as fetcher:
            instruments, rng = Instruments(registry, "1"), np.random.default_rng(1)
            settings = (DaemonSettings(), SchedulingSettings())
            await fill(store)
            gauges = (await Daemon.create(store, fetcher, *settings, instruments, rng, SteadyClock()))._gauges
            assert shown("pages", state="fringe") == 0
            await gauges._look_at_collection()
            seen = [shown("pages", state=state) for state in ("fringe", "asked", "collected", "rejected", "gone")]
            assert seen == [2, 0, 1, 1, 0]
            assert (shown("requests"), shown("harvest_ratio"), shown("mean_relevance")) == (2, 0.5, 0.5)
            freshness = shown("freshness_ratio")
            assert freshness is not None
            assert 0 <= freshness < 1

            async def away() -> None:
                raise DatabaseUnavailableError("gone")

            monkeypatch.setattr(store, "collection_status", away)
            await gauges._look_at_collection()
            assert shown("pages", state="collected") == 1
    finally:
        await store.close()
