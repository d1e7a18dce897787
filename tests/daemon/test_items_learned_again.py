"""An allocator that learns from stored polls believes of feeds what one believes that saw them live."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.whittle.whittle import Whittle
from tests.daemon.conftest import Running, Start
from tests.daemon.test_feed_windows import HOUR, feed
from tests.support.origin import Origin, until


def belief(running: Running, site_id: int) -> tuple[NDArray[np.float64], float]:
    """Returns the belief about a site, float64[1, cells], and how many polls it was learned from."""
    scheduler = running.daemon.parts.scheduler
    slot = scheduler.sites.slot_of(site_id)
    assert slot is not None
    assert isinstance(scheduler.allocator, Whittle)
    of = scheduler.allocator.belief
    return scheduler.allocator.belief_of(np.array([slot]))[1], float(of.observed[slot])


async def changed(running: Running, times: int) -> None:
    await until(lambda: running.metric("pollerd_changes_total") == times)


@pytest.mark.parametrize("objective", ["interest", "changes"])
async def test_a_candidate_learns_items_from_stored_polls(
    origin: Origin, start: Start, any_database: str, objective: str
) -> None:
    """Polls with all or some items new, and the dates of the first one."""
    begun = time.time()
    origin.pages["/feed"] = feed(0, 8, begun - 60.0)
    async with start(url=any_database, allocator="whittle", objective=objective) as running:
        (site,) = await running.add(origin.url("/feed"))
        await running.polled(site, 2)
        for changes, first in enumerate((3, 100, 104, 200), start=1):
            origin.pages["/feed"] = feed(first, 8, begun - 30.0)
            await changed(running, changes)
        await running.control.sites.pause(site, True)
        found = await running.polls(site)
        assert [poll.at_least for poll in found if poll.at_least is not None] == [4, 3, 8, 4, 8]
        assert found[0].span is not None
        seen, polls = belief(running, site)
        for name in ("uniform", "whittle"):
            await running.control.allocation.set(allocator=name)
        learned, again = belief(running, site)
        assert again == polls
        np.testing.assert_allclose(learned, seen, atol=2e-3)


async def test_what_feeds_show_is_known_to_a_candidate(origin: Origin, start: Start) -> None:
    origin.pages["/feed"] = feed(0, 8, time.time() - 60.0)
    async with start(allocator="uniform", objective="interest") as running:
        (site,) = await running.add(origin.url("/feed"), min_interval=HOUR)
        await running.polled(site, 1)
        await running.control.allocation.set(allocator="whittle")
        scheduler = running.daemon.parts.scheduler
        assert isinstance(scheduler.allocator, Whittle)
        assert scheduler.allocator._slot_table.items_shown[scheduler.sites.slot_of(site)] == 8.0  # noqa: SLF001
        assert belief(running, site)[1] == 1.0, "the dates of its first poll"
