"""A page that changes at every request, as noise does, but whose changes a believed signal source dates."""

from __future__ import annotations

import time
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.baselines import Uniform
from pollerd.allocation.registry import create
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.signals import SignalSources
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec
from pollerd.storage.signals import SignalSourceSpec, SignalStore
from tests.daemon.conftest import Start
from tests.daemon.test_proofs import CHANGED, FIRST, PROVING, UNCHANGED, Script, outcomes
from tests.support.origin import Origin

OFTEN = SchedulingSettings(min_interval_seconds=0.01, min_saving_seconds=0, host_interval_seconds=0)
POLLS = 9


@pytest.mark.parametrize("announced", [True, False])
async def test_what_a_source_announces_is_no_noise_and_not_held_back(
    start: Start, origin: Origin, monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    def dates(_: Any, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.full(len(slots), time.time() if announced else np.nan), np.ones(len(slots))

    monkeypatch.setattr(Uniform, "announced", dates)
    Script(origin, "/p", *(f"<p>Price: {n} today</p>" for n in range(1_000)))
    async with start(scheduling=OFTEN) as running:
        await running.control.signals.add(SignalSourceSpec("push", name="its own reports"))
        (site,) = await running.add(origin.url("/p"))
        found = await outcomes(running, site, POLLS)
        masked = bool((await running.control.sites.explain(site)).mask)
        changes = await running.changes()
        held_back = bool(running.daemon.parts.scheduler.sites.changes_always()[0])
    assert found[:2] == [FIRST, PROVING]
    assert found[2:] == [CHANGED if announced else UNCHANGED] * (POLLS - 2)
    assert masked is not announced
    assert not held_back
    if announced:
        assert "says that it changed again" in changes[-1].why + changes[0].why


def test_a_site_that_is_removed_during_its_poll_is_not_asked_for() -> None:
    """The allocator raises an error for a slot that it does not know."""
    allocator = create("whittle", budget=1.0, objective="changes", rng=np.random.default_rng(1))
    scheduler = SchedulerState(settings=SchedulingSettings(), allocator_name="whittle", allocator=allocator)
    for site_id in (1, 2):
        scheduler.add([site_id], [(1, "a.example:80")], [SiteSpec(f"http://a.example/{site_id}")])
    scheduler.remove(2)
    sources = SignalSources(store=cast(SignalStore, None), scheduler=scheduler)
    assert np.isnan(sources.announced(np.arange(2), np.array([1, 2]))[0]).all()
    scheduler.add([3], [(1, "a.example:80")], [SiteSpec("http://a.example/3")])
    assert np.isnan(sources.announced(np.array([1]), np.array([2]))[0]), "its slot is another site's"
