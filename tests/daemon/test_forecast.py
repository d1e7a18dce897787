"""What the budget brings, worked out from all sites or from some of very many."""

from __future__ import annotations

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from pollerd.allocation.budget_split import PriceCurve
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registered import OBJECTIVES
from pollerd.allocation.registry import create
from pollerd.daemon.budget import BudgetMeter
from pollerd.daemon.calibration import CalibrationSums
from pollerd.daemon.explain import ScheduleExplainer
from pollerd.daemon.forecast import Forecast, reported_curve
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.signals import SignalYield
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec
from pollerd.telemetry import Instruments

NOW, SITES = 1_750_000_000.0, 3_000
INSTRUMENTS = Instruments(CollectorRegistry(), "test")


@pytest.fixture
def scheduler() -> SchedulerState:
    """Sites of many kinds, each polled some times; every tenth is paused."""
    rng = np.random.default_rng(5)
    scheduler = SchedulerState(
        settings=SchedulingSettings(), allocator_name="whittle", allocator=create("whittle", budget=3.0, rng=rng)
    )
    specs = [
        SiteSpec(f"http://h{i}/", weight=1.0 + i % 3, cost=1.0 + i % 2, half_life=3600.0, paused=i % 10 == 9)
        for i in range(SITES)
    ]
    scheduler.add(range(1, SITES + 1), [(i + 1, f"h{i}:80") for i in range(SITES)], specs)
    table, slots = scheduler.sites, np.arange(SITES)
    for _ in range(4):
        gap = rng.exponential(1_000.0, SITES)
        changed = rng.random(SITES) < -np.expm1(-gap * rng.lognormal(-7, 2, SITES))
        scheduler.allocator.observe(slots, gap, EvidenceBatch(changed), NOW)
        table.last_gap[:SITES] = gap
    table.last_poll[:SITES] = table.last_seen[:SITES] = NOW - rng.exponential(1_000.0, SITES)
    table.polls[:SITES] = 4
    return scheduler


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_some_of_very_many_sites_tell_of_all(
    scheduler: SchedulerState, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.objective = objective
    whole = Forecast(scheduler, lambda: NOW)
    exact = whole.figures()
    wanted = [whole.period(slot) for slot in range(50)]
    assert wanted[:9] == exact.benefit.periods[:9].tolist(), "the tenth is paused: it is not among them"
    monkeypatch.setattr("pollerd.daemon.forecast.SAMPLE_SITES", 900)
    partial = Forecast(scheduler, lambda: NOW)
    some = partial.figures()
    assert len(some.benefit.periods) == pytest.approx(900, abs=10)
    assert some.benefit.price == pytest.approx(exact.benefit.price, rel=0.2)
    assert some.benefit.best == pytest.approx(exact.benefit.best, rel=0.2)
    assert some.benefit.uniform == pytest.approx(exact.benefit.uniform, rel=0.2)
    assert some.as_scheduled == pytest.approx(exact.as_scheduled, rel=0.2)
    often = [slot for slot in range(50) if wanted[slot] < 2_000]
    assert len(often) > 5
    np.testing.assert_allclose([partial.period(slot) for slot in often], [wanted[slot] for slot in often], rtol=0.5)


async def test_the_curve_goes_through_the_best_split_and_bends_down(scheduler: SchedulerState) -> None:
    forecast = Forecast(scheduler, lambda: NOW)
    curve = await forecast.curve()
    budgets, values = np.array(curve.points).T
    np.testing.assert_allclose(budgets, scheduler.budget * np.array([0.1, 0.25, 0.5, 1, 2, 4, 10]))
    assert values[3] == pytest.approx(forecast.figures().benefit.best)
    slopes = np.diff(values) / np.diff(budgets)
    assert (slopes > 0).all()
    assert (np.diff(slopes) < 0).all()
    assert slopes[3] < curve.one_more < slopes[2], "from 3 to 4 polls a second"
    assert await forecast.curve() is curve, "not worked out again at once"


async def test_nobody_waits_for_the_next_curve_but_after_a_change(
    scheduler: SchedulerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pollerd.daemon.forecast.FRESH_SECONDS", 0.0)
    monkeypatch.setattr("pollerd.daemon.forecast.CURVE_SHARE", np.inf)
    forecast = Forecast(scheduler, lambda: NOW)
    first = await forecast.curve()
    assert await forecast.curve() is first
    scheduler.budget_fit.fit(6.0)
    await forecast.begin_anew()
    assert (await forecast.curve()).points[3][0] == 6.0


async def test_what_cannot_be_spent_brings_nothing(scheduler: SchedulerState) -> None:
    reach = scheduler.budget_fit.spendable(np.inf)
    scheduler.budget_fit.fit(reach / 2)
    curve = await Forecast(scheduler, lambda: NOW).curve()
    values = [value for _, value in curve.points]
    assert values[3] < values[4] == values[5] == values[6]


def test_a_site_that_is_not_polled_has_no_period(scheduler: SchedulerState) -> None:
    forecast = Forecast(scheduler, lambda: NOW)
    assert forecast.period(9) == np.inf


def explainer_of(scheduler: SchedulerState) -> ScheduleExplainer:
    return ScheduleExplainer(
        scheduler=scheduler,
        meter=BudgetMeter(),
        forecast=Forecast(scheduler, lambda: NOW),
        calibration=CalibrationSums(INSTRUMENTS),
        shadows=tuple,
        signal_yield=SignalYield(sources=(), scheduler=scheduler, instruments=INSTRUMENTS),
        clock=lambda: NOW,
    )


def test_the_coming_month_is_predicted_after_five_polls(scheduler: SchedulerState) -> None:
    """Of sites 2 and 3 the former was polled once less than it takes; nothing else of the explanation hangs on it."""
    explainer = explainer_of(scheduler)
    scheduler.sites.polls[1:3] = 4, 5
    early, later = explainer.explain(2), explainer.explain(3)
    assert early is not None
    assert later is not None
    assert early.rate_per_day is not None
    assert early.next_30_days is None
    coming, rate = later.next_30_days, later.rate_per_day
    assert coming is not None
    assert rate is not None
    assert coming.low <= coming.median <= coming.high
    assert coming.low < 30 * rate < 4 * coming.high


def test_a_policy_without_rates_predicts_no_changes(scheduler: SchedulerState, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler.sites.polls[2] = 5
    nothing = np.full((1, 1), np.nan)
    monkeypatch.setattr(scheduler.allocator, "belief_of", lambda slots: (nothing, np.ones((1, 1))))
    explained = explainer_of(scheduler).explain(3)
    assert explained is not None
    assert explained.next_30_days is None


def test_the_rank_among_very_many_is_estimated(scheduler: SchedulerState, monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = explainer_of(scheduler)
    urgency = scheduler.allocator.urgency(scheduler.sites.elapsed(NOW), NOW)
    order = np.argsort(-urgency[:SITES])
    shown = [explainer.explain(int(order[place]) + 1) for place in (0, 100, 2_000)]
    assert [found.rank for found in shown if found] == [1, 101, 2_001]
    monkeypatch.setattr("pollerd.daemon.forecast.SAMPLE_SITES", 1_000)
    shown = [explainer.explain(int(order[place]) + 1) for place in (0, 100, 2_000)]
    np.testing.assert_allclose(
        np.array([found.rank for found in shown if found], np.float64), [1, 101, 2_001], atol=150
    )
    assert [found.urgency for found in shown if found] == urgency[order[[0, 100, 2_000]]].tolist()


async def test_a_node_reports_the_price_of_its_budget_and_the_cost_of_its_sites(
    scheduler: SchedulerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    forecast = Forecast(scheduler, lambda: NOW)
    cost, data = await reported_curve(forecast, 30.0)
    assert cost == pytest.approx(scheduler.live_cost())
    assert data is not None
    curve = PriceCurve.from_bytes(data)
    assert curve.price_at(scheduler.budget) == pytest.approx(forecast.figures().benefit.price, rel=0.05)
    monkeypatch.setattr("pollerd.daemon.forecast.SAMPLE_SITES", 900)
    some_cost, some = await reported_curve(Forecast(scheduler, lambda: NOW), 30.0)
    assert some_cost == pytest.approx(cost)
    assert some is not None
    assert PriceCurve.from_bytes(some).price_at(3.0) == pytest.approx(curve.price_at(3.0), rel=0.2)


@pytest.mark.parametrize(("name", "known"), [("uniform", False), ("whittle", True)])
async def test_a_node_without_belief_or_without_sites_reports_so(name: str, known: bool) -> None:
    rng = np.random.default_rng(5)
    state = SchedulerState(
        settings=SchedulingSettings(), allocator_name=name, allocator=create(name, budget=3.0, rng=rng)
    )
    cost, data = await reported_curve(Forecast(state, lambda: NOW), 30.0)
    assert (cost, data and PriceCurve.from_bytes(data).reach) == (0.0, 0.0)
    state.add([1, 2], [(1, "h:80")], [SiteSpec("http://h/1", cost=2.0), SiteSpec("http://h/2")])
    assert await reported_curve(Forecast(state, lambda: NOW), 30.0) == (3.0, None), "nothing was polled twice yet"
    state.sites.last_gap[state.sites.slots_of(np.array([1, 2]))] = 60.0
    cost, data = await reported_curve(Forecast(state, lambda: NOW), 30.0)
    assert (cost, data is not None) == (3.0, known)
