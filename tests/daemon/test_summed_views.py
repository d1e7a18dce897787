"""What several nodes expect is put together as one daemon with all their sites would say it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pollerd.allocation.objectives import ComparedPolicies, ExpectedTimeliness
from pollerd.daemon.views import (
    AllocationView,
    BenefitPointView,
    CalibrationView,
    DecileView,
    ShadowView,
    SignalYieldView,
)
from pollerd.daemon.yields import summed
from pollerd.scheduling.capacity import PollLimit


def curve(budget: float, most: float) -> tuple[BenefitPointView, ...]:
    """A concave yield, up to `most` an hour, at .1 to 10 times the budget."""
    budgets = [budget * 10 ** (k / 10 - 1) for k in range(21)]
    return tuple(BenefitPointView(b, most * (1 - math.exp(-b / 4.0))) for b in budgets)


def view(budget: float = 2.0, sites: int = 10, most: float = 100.0) -> AllocationView:
    deciles = (DecileView(sites, 0.05, 0.1), *(DecileView(0, None, None) for _ in range(9)))
    return AllocationView(
        allocator="whittle",
        objective="changes",
        deadline=1800.0,
        budget=budget,
        utilization=0.5,
        spendable=budget,
        binding=PollLimit.BUDGET,
        binding_in_words=f"budget binding: {sites}",
        price=0.1,
        expected_detections_per_hour_as_scheduled=10.0,
        expected_detections_per_hour_uniform=8.0,
        expected_detections_per_hour_best=12.0,
        sites=sites,
        late_sites=1,
        noisy_sites=2,
        proofs_waiting=3,
        maximum_intervals_feasible=True,
        calibration=CalibrationView(sites, 0.05, deciles),
        one_more_poll_per_second_finds_per_hour=5.0,
        benefit_curve=curve(budget, most),
        shadows=(ShadowView("uniform", "following", 8.0, None),),
    )


def test_sums() -> None:
    both = summed([view(), view(4.0, 30)], 8.0)
    assert (both.budget, both.spendable, both.utilization) == (8.0, 6.0, 3.0 / 8.0)
    assert (both.sites, both.late_sites, both.noisy_sites, both.proofs_waiting) == (40, 2, 4, 6)
    assert both.expected_detections_per_hour_as_scheduled == 20.0
    assert both.binding_in_words == "budget binding: 30"
    assert both.shadows == (ShadowView("uniform", "following", 16.0, None),)
    first = both.calibration.deciles[0]
    assert (both.calibration.polls, first.polls, both.calibration.deciles[1:]) == (
        40,
        40,
        view().calibration.deciles[1:],
    )
    assert [both.calibration.expected_error, first.predicted, first.found] == pytest.approx([0.05, 0.05, 0.1])


def test_one_view_stays_as_it_is() -> None:
    one = view()
    alone = summed([one], one.budget)
    assert replace(alone, calibration=one.calibration, benefit_curve=one.benefit_curve) == one
    for mine, its in zip(alone.benefit_curve, one.benefit_curve, strict=True):
        assert mine.budget == pytest.approx(its.budget, rel=1e-5)
        assert mine.expected_detections_per_hour == pytest.approx(its.expected_detections_per_hour, rel=1e-5)


def test_the_curve_is_that_of_the_best_division() -> None:
    """Of two nodes alike, twice the budget brings twice as much; of unlike ones, more than any fixed division."""
    alike = summed([view(), view()], 4.0)
    for both, one in zip(alike.benefit_curve, view().benefit_curve, strict=True):
        assert both.budget == pytest.approx(2 * one.budget, rel=1e-5)
        assert both.expected_detections_per_hour == pytest.approx(2 * one.expected_detections_per_hour, rel=1e-5)
    poor = summed([view(), view(most=1.0)], 4.0)
    at_4 = next(p for p in poor.benefit_curve if p.budget == pytest.approx(4.0))
    assert at_4.expected_detections_per_hour >= 0.98 * 100.0 * (1 - math.exp(-1.0))
    assert at_4.expected_detections_per_hour <= 101.0 * (1 - math.exp(-1.0)) + 1.0


def test_what_one_node_does_not_know_is_not_known() -> None:
    new = replace(view(), benefit_curve=(), one_more_poll_per_second_finds_per_hour=None, shadows=())
    both = summed([view(), new], 4.0)
    assert both.benefit_curve == ()
    assert both.one_more_poll_per_second_finds_per_hour is None
    assert both.shadows[0].expected_detections_per_hour is None
    nan = float("nan")
    empty = replace(new, sites=0, expected_detections_per_hour_best=nan)
    assert summed([view(), empty], 4.0).expected_detections_per_hour_best == 12.0
    assert math.isnan(summed([empty], 4.0).expected_detections_per_hour_best)


def test_signals_and_timeliness() -> None:
    signals = SignalYieldView(3, 100, 20, 30, 15, 0.5)
    nothing_saved, not_known = replace(signals, budget_saved=0.0), replace(signals, budget_saved=None)
    both = summed([replace(view(1.0), signals=signals), replace(view(2.0), signals=nothing_saved)], 3.0)
    assert both.signals is not None
    assert (both.signals.sources, both.signals.polls, both.signals.found_after_signal) == (3, 200, 30)
    assert both.signals.budget_saved == pytest.approx(1 - 3.0 / (2.0 + 2.0))
    unknown = summed([replace(view(), signals=signals), replace(view(), signals=not_known)], 4.0)
    assert unknown.signals is not None
    assert unknown.signals.budget_saved is None

    def timely(changes: float, delay: float, best: float | None) -> ExpectedTimeliness:
        return ExpectedTimeliness(ComparedPolicies(delay, delay, best), ComparedPolicies(0.5, 0.5, 1.0), changes)

    mixed = summed([replace(view(), timeliness=timely(1, 100, None)), replace(view(), timeliness=timely(3, 20, 5))], 4)
    assert mixed.timeliness == timely(4, 40, None)
