"""`delay` and `deadline` for known rates: indices, splits and values against integrals, search and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.budget_split import price_curve
from pollerd.allocation.objectives import (
    TimelySites,
    deadline_index,
    deadline_value,
    delay_index,
    delay_value,
    priced_sites,
)
from pollerd.allocation.registry import create
from pollerd.errors import InvalidValueError
from tests.allocation.benefits import expected_benefit

SEEDS = st.integers(0, 2**32 - 1)


def sites(n: int, seed: int, deadline: float | None = None) -> tuple[TimelySites, NDArray[np.float64]]:
    """Sites of random weighted rates and costs, and their costs."""
    rng = np.random.default_rng(seed)
    cost = rng.uniform(0.5, 3.0, n)
    due = None if deadline is None else np.full(n, deadline) * rng.uniform(0.5, 2.0, n)
    return TimelySites(np.exp(rng.normal(-3, 2, n)), cost, np.zeros(n), due), cost


def waits_of(rate: float, period: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """How long the changes of a page waited that is polled every `period` s, drawn change by change."""
    at = np.cumsum(rng.exponential(1.0 / rate, 200_000))
    return np.asarray(np.ceil(at / period) * period - at)


@given(st.floats(1e-4, 10.0), st.floats(0.1, 1e4))
def test_the_index_of_delay_is_what_another_poll_a_second_saves(weighted_rate: float, period: float) -> None:
    """By numerical differentiation of the value per second, of polls every 1 / x seconds."""
    x, step = 1.0 / period, 1e-5 / period
    often, seldom = (delay_value(np.array(1.0 / y), np.array(weighted_rate)) for y in (x + step, x - step))
    assert delay_index(np.array(period), np.array(weighted_rate)) == pytest.approx(
        (often - seldom) / (2 * step), rel=1e-6
    )


@given(st.floats(1e-4, 10.0), st.floats(0.1, 1e4), st.floats(1.0, 1e3))
def test_the_index_of_a_deadline_is_what_another_poll_a_second_brings(
    weighted_rate: float, period: float, deadline: float
) -> None:
    if abs(period / deadline - 1.0) < 1e-3:
        return  # at the kink there are two slopes
    x, step = 1.0 / period, 1e-5 / period
    often, seldom = (
        deadline_value(np.array(1.0 / y), np.array(weighted_rate), np.array(deadline)) for y in (x + step, x - step)
    )
    found = deadline_index(np.array(period), np.array(weighted_rate), np.array(deadline))
    assert found == pytest.approx((often - seldom) / (2 * step), rel=1e-6, abs=1e-9)


def test_values_are_those_of_simulated_changes() -> None:
    """Every change counts, also those that one poll finds together."""
    rng = np.random.default_rng(1)
    for rate, period in ((0.1, 3.0), (1.0, 5.0), (3.0, 2.0)):
        waited = waits_of(rate, period, rng)
        assert waited.mean() * rate == pytest.approx(-delay_value(np.array(period), np.array(rate)), rel=0.01)
        for deadline in (0.5, 1.9, 7.0):
            value = deadline_value(np.array(period), np.array(rate), np.array(deadline))
            assert (waited <= deadline).mean() * rate == pytest.approx(value, rel=0.02)


def test_delay_of_two_pages_is_least_in_proportion_to_root_rates() -> None:
    weighted_rate, budget = np.array([4.0, 1.0]), 3.0
    pages = TimelySites(weighted_rate, np.ones(2), np.zeros(2))
    price, periods = pages.split(budget)
    np.testing.assert_allclose(1.0 / periods, [2.0, 1.0], rtol=1e-6)
    assert price == pytest.approx(weighted_rate[0] * periods[0] ** 2 / 2, rel=1e-6)
    shares = np.linspace(0.01, 0.99, 9_801)
    least = min(weighted_rate[0] / (2 * budget * s) + weighted_rate[1] / (2 * budget * (1 - s)) for s in shares)
    assert -pages.value(periods) == pytest.approx(least, rel=1e-5)


def test_deadlines_of_two_pages_are_kept_by_worth() -> None:
    """1.5 polls a deadline: the better page is polled once in it, the other gets the rest."""
    pages = TimelySites(np.array([1.0, 3.0]), np.ones(2), np.zeros(2), np.full(2, 10.0))
    _, periods = pages.split(0.15)
    np.testing.assert_allclose(periods, [20.0, 10.0], rtol=1e-6)
    shares = np.linspace(1e-4, 1 - 1e-4, 10_001)
    most = max(min(1.5 * s, 1.0) + 3 * min(1.5 * (1 - s), 1.0) for s in shares)
    assert pages.value(periods) == pytest.approx(most, rel=1e-3)


@settings(max_examples=30)
@given(st.integers(2, 30), st.floats(0.01, 10.0), SEEDS)
def test_no_other_split_has_less_delay(n: int, budget: float, seed: int) -> None:
    """Descent on the frequencies themselves, which knows nothing of indices, ends no better."""
    pages, cost = sites(n, seed)
    _, periods = pages.split(budget)
    assert float((cost / periods).sum()) == pytest.approx(budget, rel=1e-6)
    weighted_rate = -2.0 * np.array([TimelySites.value(pages, np.where(np.arange(n) == i, 1.0, 0.0)) for i in range(n)])
    share = np.full(n, 1.0 / n)  # of the budget; multiplicative updates keep the sum
    for _ in range(2_000):
        share = share * (weighted_rate * cost / share**2) ** 0.25
        share /= share.sum()
    assert pages.value(periods) >= pages.value(cost / (budget * share)) * (1 + 1e-6)


@settings(max_examples=30)
@given(st.integers(2, 30), st.floats(0.01, 10.0), SEEDS)
def test_no_other_split_keeps_more_deadlines(n: int, budget: float, seed: int) -> None:
    """A linear programme, solved by its dual: the least price plus gain over all prices bounds every split."""
    pages, cost = sites(n, seed, deadline=20.0)
    _, periods = pages.split(budget)
    assert float((cost / periods).sum()) <= budget * (1 + 1e-6)
    best = pages.value(np.full(n, 1e-9))  # polled without end, all is found in time
    each = np.array([pages.value(np.where(np.arange(n) == i, 1e-9, np.inf)) for i in range(n)])
    often = cost / np.minimum(pages.at(-600.0), 1e300)
    bounds = [price * budget + np.maximum(each - price * often, 0.0).sum() for price in [0.0, *(each / often)]]
    assert pages.value(periods) == pytest.approx(min(bounds), rel=1e-6)
    assert pages.value(periods) <= best * (1 + 1e-9)


def test_a_long_deadline_asks_for_nothing_and_a_short_one_for_the_fastest() -> None:
    weighted_rate = np.array([0.01, 0.5, 0.02])
    within = {one: TimelySites(weighted_rate, np.ones(3), np.zeros(3), np.full(3, one)) for one in (1e9, 1e-3)}
    price, periods = within[1e9].split(0.1)
    assert price == 0.0
    assert within[1e9].value(periods) == pytest.approx(weighted_rate.sum())
    np.testing.assert_array_equal(periods, 1e9)
    _, periods = within[1e-3].split(0.1)
    np.testing.assert_allclose(periods[1], 10.0, rtol=1e-6)
    assert within[1e-3].value(periods) == pytest.approx(0.1 * 0.5 * 1e-3, rel=1e-6)  # polls a second · λ D


def test_floors_and_worthless_sites() -> None:
    for deadline in (None, np.full(3, 5.0)):
        pages = TimelySites(np.array([1.0, 1.0, 0.0]), np.ones(3), np.array([8.0, 0.0, 0.0]), deadline)
        _, periods = pages.split(0.3)
        assert periods[0] >= 8.0
        assert periods[2] == np.inf
        assert np.isfinite(pages.value(periods))
        assert float((1 / periods).sum()) == pytest.approx(0.3, rel=1e-6)


@pytest.mark.parametrize("objective", ["delay", "deadline"])
def test_a_belief_counts_by_its_mean(objective: str) -> None:
    rates, nothing = np.array([[0.1, 1.0]]), np.full(1, np.nan)
    shares = np.array([[0.75, 0.25]])
    mean = np.array([[0.325]])
    ones = np.ones(1)
    believed = priced_sites((rates, shares), ones, ones, nothing, np.zeros(1), objective, np.array([30.0]))
    known = priced_sites((mean, np.ones((1, 1))), ones, ones, nothing, np.zeros(1), objective, np.array([30.0]))
    assert believed.value(np.array([50.0])) == pytest.approx(known.value(np.array([50.0])))
    np.testing.assert_allclose(believed.periods(0.5), known.periods(0.5))


@pytest.mark.parametrize("deadline", [None, 20.0])
def test_price_curves_spend_what_the_split_spends(deadline: float | None) -> None:
    pages, cost = sites(200, 3, deadline)
    curve = price_curve(pages, cost, 5.0)
    for budget in (0.05, 0.5, 3.0):
        price, _ = pages.split(budget)
        assert curve.price_at(budget) == pytest.approx(price, rel=0.15)


@pytest.mark.parametrize("name", ["whittle", "optimal", "uniform"])
def test_deadlines_are_checked(name: str) -> None:
    rng = np.random.default_rng(0)
    for bad in (0.0, -1.0, np.nan, np.inf, "soon"):
        with pytest.raises(InvalidValueError, match="deadline"):
            create(name, budget=1.0, objective="deadline", rng=rng, deadline=bad)  # type: ignore[arg-type]
    allocator = create(name, budget=1.0, objective="deadline", rng=rng, deadline=60.0)
    for bad_one in (0.0, -5.0, np.inf):
        with pytest.raises(InvalidValueError, match="deadline"):
            allocator.add(np.arange(1), np.ones(1), np.ones(1), deadline=np.array([bad_one]))
    allocator.add(np.arange(2), np.ones(2), np.ones(2), deadline=np.array([np.nan, 5.0]))
    assert np.isfinite(allocator.urgency(np.full(2, 10.0), 1e9)).all()


def test_benefits_are_those_of_the_split() -> None:
    rates, ones = np.array([0.04, 0.01, np.nan]), np.ones(3)
    delay = expected_benefit(rates, ones, ones, 0.3, "delay")
    np.testing.assert_allclose(1 / delay.periods, [0.2, 0.1, 0.0], rtol=1e-6)
    assert delay.best == pytest.approx(-((0.2 + 0.1) ** 2) / 0.6)
    assert delay.uniform == pytest.approx(-0.05 * 2 / 0.3 / 2)
    due = expected_benefit(rates, ones, ones, 0.15, "deadline", deadline=np.full(3, 10.0))
    assert due.best == pytest.approx(0.04 + 0.005)
    assert due.uniform == pytest.approx(0.05 * 0.75)


@pytest.mark.parametrize(("rate", "deadline"), [(0.3, 2.0), (1.5, 2.0)])
def test_other_counts_of_a_poll_are_as_written_down(rate: float, deadline: float) -> None:
    """What a poll after 3 s brings if it counts once: for any change in time, for the first one, less its wait."""
    rng, gap, runs = np.random.default_rng(8), 3.0, 200_000
    number = rng.poisson(rate * gap, runs)
    some = number > 0
    oldest = gap * rng.beta(np.maximum(number, 1), 1)  # ages of the first and of the last of so many changes
    newest = gap * rng.beta(1, np.maximum(number, 1))
    assert (some & (newest <= deadline)).mean() == pytest.approx(1 - np.exp(-rate * deadline), rel=0.02)
    first = np.exp(-rate * (gap - deadline)) * (1 - np.exp(-rate * deadline))
    assert (some & (oldest <= deadline)).mean() == pytest.approx(first, rel=0.05)
    assert np.where(some, oldest, 0.0).mean() == pytest.approx(gap - (1 - np.exp(-rate * gap)) / rate, rel=0.02)
