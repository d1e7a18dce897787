"""The focused crawler's collection as metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from pollerd.app.build import LiveSettings, live_daemon
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.store import Store
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
        await fill(store)
        instruments, rng = Instruments(registry, "1"), np.random.default_rng(1)
        async with live_daemon(store, LiveSettings(), instruments, rng) as daemon:
            gauges = daemon.parts.gauges
            assert shown("pages", state="fringe") == 0
            await gauges.look_at_collection()
            seen = [shown("pages", state=state) for state in ("fringe", "asked", "collected", "rejected", "gone")]
            assert seen == [2, 0, 1, 1, 0]
            assert (shown("requests"), shown("harvest_ratio"), shown("mean_relevance")) == (2, 0.5, 0.5)
            freshness = shown("freshness_ratio")
            assert freshness is not None
            assert 0 <= freshness < 1

            async def away() -> None:
                raise DatabaseUnavailableError("gone")

            monkeypatch.setattr(store.collection, "status", away)
            await gauges.look_at_collection()
            assert shown("pages", state="collected") == 1
    finally:
        await store.close()
