"""What signals brought in the last hour, and the share of the budget that they save."""

from __future__ import annotations

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from pollerd.allocation.registry import create
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.signals import SPAN_SECONDS, SignalYield, saved_share
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec
from pollerd.storage.signals import ListedDate, SignalSourceSpec
from pollerd.telemetry import Instruments
from tests.daemon.conftest import Start
from tests.support.origin import Origin, Page

CURVE = ((1.0, 10.0), (2.0, 15.0), (4.0, 18.0), (8.0, 18.0))


@pytest.mark.parametrize(("value", "saved"), [(5.0, 0.0), (15.0, 0.0), (16.5, 1 - 2 / 3), (18.0, 0.5), (99.0, 0.5)])
def test_the_share_saved_is_that_of_the_budget_that_finds_as_much(value: float, saved: float) -> None:
    assert saved_share(value, 2.0, CURVE) == pytest.approx(saved)
    assert saved_share(value, 2.0, ()) is None


def signalled(sources: list[int]) -> SignalYield:
    """Sums over three sites: two with a source, of which one has a signal, and one without."""
    allocator = create("whittle", budget=2.0, rng=np.random.default_rng(0))
    scheduler = SchedulerState(settings=SchedulingSettings(), allocator_name="whittle", allocator=allocator)
    scheduler.add([1, 2, 3], [(i, f"h{i}:80") for i in (1, 2, 3)], [SiteSpec(f"http://h{i}/") for i in (1, 2, 3)])
    scheduler.add_source(5, np.array([0, 1]), None)
    scheduler.signal(np.array([1]), 5, np.array([np.nan]), 10.0)
    return SignalYield(sources=sources, scheduler=scheduler, instruments=Instruments(CollectorRegistry(), "test"))


def test_polls_are_counted_by_whether_a_signal_came_before() -> None:
    sums = signalled([5])
    found = np.array([False, True, True])
    sums.note(np.arange(3), np.array([0.1, 0.9, np.nan]), found, 100.0)
    sums.note(np.arange(3), np.array([1.0, 1.0, 1.0]), found, 160.0)
    seen = sums.view((), 220.0)
    assert seen is not None
    assert (seen.sources, seen.polls, seen.found, seen.polls_after_signal, seen.found_after_signal) == (1, 4, 2, 2, 2)
    assert seen.budget_saved is None, "the curve is not known"
    curve = ((2.0, 0.01), (4.0, 4.0 / 120.0), (8.0, 1.0))
    with_curve = sums.view(curve, 220.0)
    assert with_curve is not None
    assert with_curve.budget_saved == pytest.approx(0.5), "4 changes were expected in 120 s: as of twice the budget"
    later = sums.view((), 160.0 + SPAN_SECONDS + 61.0)
    assert later is not None
    assert later.polls == 0


def test_without_sources_there_is_nothing_to_say() -> None:
    sums = signalled([])
    sums.note(np.arange(3), np.ones(3), np.ones(3, bool), 100.0)
    assert sums.view(CURVE, 100.0) is None


async def test_a_page_that_was_reported_is_explained_and_counted(start: Start, origin: Origin) -> None:
    origin.pages["/a"] = Page("page a")
    async with start(allocator="whittle") as running:
        (site,) = await running.add(origin.url("/a"), min_interval=3600.0)
        for polls in (1, 2):
            await running.control.sites.poll_now(site)
            await running.polled(site, polls)
        assert running.control.allocation.view().signals is None
        await running.control.signals.add(SignalSourceSpec("push", None, "cms", "any"))
        assert await running.control.signals.report("cms", [ListedDate(origin.url("/a"))]) == (1, 0)
        explained = await running.control.sites.explain(site)
        assert explained.notes["signals"].startswith("1 signal since the last poll, of 1 source")
        await running.control.sites.poll_now(site)
        await running.polled(site, 3)
        seen = running.control.allocation.view().signals
        assert seen is not None
        assert (seen.sources, seen.polls, seen.polls_after_signal, seen.found_after_signal) == (1, 1, 1, 0)
