"""Predicted against found: counted by decile, shown in figures and metrics, right where the belief is right."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.daemon.calibration import CalibrationSums
from pollerd.telemetry import Instruments
from tests.daemon.conftest import Start
from tests.support.origin import Origin, Page

NOW = 1_750_000_000.0


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def calibration(registry: CollectorRegistry) -> CalibrationSums:
    return CalibrationSums(Instruments(registry, "test"))


def test_polls_are_counted_by_decile(calibration: CalibrationSums, registry: CollectorRegistry) -> None:
    predicted = np.array([0.0, 0.05, 0.1, 0.99, 1.0, np.nan, 0.5])
    elapsed = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, np.inf])
    calibration.note(predicted, elapsed, EvidenceBatch(np.array([False, True, False, True, False, True, True])))
    view = calibration.view()
    assert view.polls == 5, "neither what was not foretold nor a first poll"
    assert [decile.polls for decile in view.deciles] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert [decile.found for decile in view.deciles[:3]] == [0.5, 0.0, None]
    assert view.deciles[9].predicted == pytest.approx(0.995)
    assert view.expected_error == pytest.approx((abs(1 - 0.05) + 0.1 + abs(1 - 1.99)) / 5)
    for name, wanted in (("polls", 2.0), ("predicted_changes", 1.99), ("found_changes", 1.0)):
        assert registry.get_sample_value(f"pollerd_calibration_{name}_total", {"decile": "10"}) == wanted


def test_the_strongest_evidence_says_whether_it_changed(calibration: CalibrationSums) -> None:
    told = EvidenceBatch(
        changed=np.array([True, False, True, False]),
        age=np.array([np.nan, np.nan, 3.0, np.nan]),
        count=np.array([0, 4, -1, -1]),
    )
    calibration.note(np.array([0.05, 0.15, 0.25, 0.35]), np.ones(4), told)
    assert [decile.found for decile in calibration.view().deciles[:4]] == [0.0, 1.0, 1.0, 0.0]


def test_another_allocator_begins_anew_and_the_metrics_go_on(
    calibration: CalibrationSums, registry: CollectorRegistry
) -> None:
    for _ in range(2):
        calibration.note(np.array([0.5]), np.ones(1), EvidenceBatch(np.array([True])))
        calibration.begin_anew()
    assert (calibration.view().polls, calibration.view().expected_error) == (0, None)
    assert registry.get_sample_value("pollerd_calibration_polls_total", {"decile": "6"}) == 2.0


def test_a_wrong_belief_shows_and_a_right_one_does_not(registry: CollectorRegistry) -> None:
    """Whittle on pages drawn from a log-normal: the error is small; told half as many changes, it is large."""
    rng = np.random.default_rng(11)
    n, step = 300, 10.0
    rates = rng.lognormal(-7.0, 1.5, n)
    allocator = create("whittle", budget=0.1, rng=rng)
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    right, wrong = (
        CalibrationSums(Instruments(registry, "test")),
        CalibrationSums(Instruments(CollectorRegistry(), "test")),
    )
    last, now = np.full(n, NOW), NOW
    for turn in range(1_500):
        now += 5 * step
        slots = allocator.select(now - last, now, np.ones(n, np.bool_), 5)
        gap = now - last[slots]
        evidence = EvidenceBatch(rng.random(5) < -np.expm1(-rates[slots] * gap))
        predicted = allocator.change_probability(slots, gap)
        allocator.observe(slots, gap, evidence, now)
        last[slots] = now
        if turn >= 300:
            right.note(predicted, gap, evidence)
            wrong.note(predicted / 2, gap, evidence)
    good, bad = right.view(), wrong.view()
    assert good.polls == 6_000
    assert good.expected_error is not None
    assert bad.expected_error is not None
    assert good.expected_error < 0.05
    assert bad.expected_error > 0.15


async def test_the_daemon_counts_its_informative_polls(origin: Origin, start: Start) -> None:
    numbers = itertools.count()

    async def handler(_: web.Request) -> web.Response:
        return web.Response(text=f"<p>{next(numbers)}</p>", content_type="text/html")

    origin.pages["/new"] = Page(handler=handler)
    origin.pages["/gone"] = Page(status=500)
    async with start(allocator="whittle") as running:
        (changing, failing) = await running.add(origin.url("/new"), origin.url("/gone", host=2))
        await running.polled(changing, 5)
        await running.polled(failing, 1)
        await running.control.sites.pause(changing, True)
        for _ in range(500):  # a poll is learned from before it is committed
            found = running.control.allocation.view().calibration
            first, *others = [poll for poll in await running.polls(changing) if poll.outcome.informative]
            if not running.control.health.status().in_flight and found.polls == len(others):
                break
            await asyncio.sleep(0.03)
        assert first.elapsed is None
        assert found.polls == len(others), "neither first polls, nor failures, nor those that wait for a proof"
        assert sum(decile.polls for decile in found.deciles if decile.found == 1.0) == len(others)
        await running.control.allocation.set(allocator="uniform")
        assert running.control.allocation.view().calibration.polls == 0
