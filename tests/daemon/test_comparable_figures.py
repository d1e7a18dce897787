"""As scheduled, round robin and the best split are told within the same intervals, beliefs and politeness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.daemon.forecast import Figures, Forecast, even_period
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.unchanged import note_unchanged
from pollerd.scheduling.capacity import PollLimit, waiting
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec

NOW, SITES = 1_750_000_000.0, 50
SLOTS = np.arange(SITES)


def fleet_of(budget: float, hosts: int, min_yield: float) -> SchedulerState:
    """Sites on some hosts, polled every 40 s or so; the first half changed each time, the others never."""
    rng = np.random.default_rng(7)
    settings = SchedulingSettings(min_saving_seconds=0, min_yield=min_yield)
    scheduler = SchedulerState(
        settings=settings, allocator_name="whittle", allocator=create("whittle", budget=budget, rng=rng)
    )
    specs = [SiteSpec(f"http://h{i % hosts}/{i}") for i in range(SITES)]
    scheduler.add(range(1, SITES + 1), [(i % hosts + 1, f"h{i % hosts}:80") for i in range(SITES)], specs)
    scheduler.budget_fit.fit()
    for i in range(30):
        gap = rng.uniform(31.0, 50.0, SITES)
        scheduler.allocator.observe(SLOTS, gap, EvidenceBatch((SLOTS < SITES // 2) & (i % 3 == 0)), NOW)
        scheduler.sites.last_gap[:SITES] = gap
    scheduler.sites.last_poll[:SITES] = scheduler.sites.last_seen[:SITES] = NOW - 5.0
    scheduler.sites.polls[:SITES] = 30
    note_unchanged(scheduler, SLOTS, 0.0)
    scheduler.budget_fit.fit()
    return scheduler


def binding(scheduler: SchedulerState) -> PollLimit:
    return waiting(scheduler.sites, scheduler.hosts, scheduler.settings, NOW).binding(0.0, scheduler.budget)


def figures(scheduler: SchedulerState) -> Figures:
    return Forecast(scheduler, lambda: NOW).figures()


@pytest.mark.parametrize("hosts", [1, 2, 50])
@pytest.mark.parametrize("min_yield", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("budget", [0.2, 1.0, 5.0])
def test_nothing_is_better_than_the_best_split(budget: float, min_yield: float, hosts: int) -> None:
    scheduler = fleet_of(budget, hosts, min_yield)
    found = figures(scheduler)
    best = found.benefit.best * (1 + 1e-6)
    assert found.benefit.uniform <= best
    spent = (1.0 / found.benefit.periods).sum()
    assert spent == pytest.approx(min(budget, scheduler.budget_fit.reach().total), rel=1e-3)
    if binding(scheduler) is not PollLimit.BUDGET:
        assert found.as_scheduled <= best


@pytest.mark.parametrize(
    ("hosts", "min_yield", "limit"),
    [(50, 0.0, PollLimit.MIN_INTERVAL), (50, 0.99, PollLimit.MIN_YIELD), (1, 0.0, PollLimit.HOST_INTERVAL)],
)
def test_where_the_budget_does_not_bind_all_three_are_the_same(hosts: int, min_yield: float, limit: PollLimit) -> None:
    scheduler = fleet_of(5.0, hosts, min_yield)
    scheduler.sites.last_gap[:SITES] = 30.0
    found = figures(scheduler)
    assert binding(scheduler) is limit
    assert found.benefit.uniform == pytest.approx(found.benefit.best)
    assert found.as_scheduled == pytest.approx(found.benefit.best)
    assert found.benefit.price == 0.0


def test_a_site_not_polled_twice_counts_as_under_round_robin() -> None:
    scheduler = fleet_of(5.0, 50, 0.0)
    scheduler.sites.last_gap[:SITES] = np.inf
    found = figures(scheduler)
    assert found.as_scheduled == pytest.approx(found.benefit.uniform) != 0.0


@given(
    st.lists(st.tuples(st.floats(0.01, 100), st.just(0.0) | st.floats(1e-3, 1e6)), min_size=1, max_size=20),
    st.floats(1e-6, 1e3),
)
def test_the_even_period_spends_the_budget(rows: list[tuple[float, float]], budget: float) -> None:
    cost, floor = np.array(rows).T
    period = even_period(cost, floor, budget)
    with np.errstate(divide="ignore"):
        most = (cost / floor).sum()
    if period == 0.0:
        assert most <= budget
    else:
        assert (cost / np.maximum(period, floor)).sum() == pytest.approx(budget, rel=1e-6)
