"""The daemon under `delay` and `deadline`: deadlines of sites, of tags and of all reach the allocator."""

from __future__ import annotations

import pytest

from pollerd.allocation.whittle.whittle import Whittle
from tests.daemon.conftest import Start
from tests.support.origin import Origin, Page, until

PATIENCE_SECONDS = 60.0


def deadlines_of(allocator: object) -> list[float]:
    assert isinstance(allocator, Whittle)
    return sorted({round(float(jump)) for jump in allocator.urgency_jumps})


async def test_deadlines_reach_the_allocator_and_stay(origin: Origin, start: Start, any_database: str) -> None:
    for path in ("/a", "/b", "/c"):
        origin.pages[path] = Page("<p>calm</p>")
    async with start(url=any_database, allocator="whittle", objective="deadline", deadline=900.0) as running:
        _, changed = await running.add(origin.url("/a", host=1), origin.url("/c", host=3))
        await running.add(origin.url("/b", host=2), deadline=120.0)
        scheduler = running.daemon.parts.scheduler
        assert deadlines_of(scheduler.allocator) == [120, 900]
        await running.control.sites.update(changed, {"deadline": 60.0})
        assert deadlines_of(scheduler.allocator) == [60, 120, 900]
        await until(lambda: running.control.health.status().polls >= 6, PATIENCE_SECONDS)
        view = await running.control.allocation.set(deadline=300.0)
        assert (view.objective, view.deadline) == ("deadline", 300.0)
        assert deadlines_of(running.daemon.parts.scheduler.allocator) == [60, 120, 300]
        assert view.timeliness is not None
    async with start(url=any_database, allocator="whittle", objective="deadline", deadline=300.0) as running:
        assert deadlines_of(running.daemon.parts.scheduler.allocator) == [60, 120, 300]


@pytest.mark.parametrize("objective", ["delay", "deadline"])
async def test_shadows_and_gauges_follow(origin: Origin, start: Start, objective: str) -> None:
    origin.pages["/a"] = Page("<p>calm</p>")
    async with start(allocator="whittle", objective=objective, shadows=("uniform", "optimal")) as running:
        await running.add(origin.url("/a", host=1), origin.url("/a", host=2))
        await until(lambda: running.control.health.status().polls >= 4, PATIENCE_SECONDS)
        view = running.control.allocation.view()
        assert view.timeliness is not None
        in_time = view.timeliness.in_time
        assert in_time.best is not None
        assert in_time.uniform is not None
        assert 0 < in_time.uniform <= in_time.best <= 1 + 1e-9 or objective == "delay"
        assert view.expected_detections_per_hour_best >= 0
        assert {one.allocator for one in view.shadows} == {"uniform", "optimal"}
