"""Earliest deadline first polls at the amounts; LAKG keeps its rules; splits by rates are what they are said to be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.automata.lakg import LakgSettings
from pollerd.allocation.budget_split import value
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import amplitude_and_rate, solve_price
from pollerd.allocation.periodic import EarliestDeadlineFirst
from pollerd.allocation.registry import create
from pollerd.errors import InvalidValueError

NOW = 1.75e9
STEP = 10.0


def made(name: str, n: int, objective: str = "changes", **parameters: Any) -> Allocator:
    allocator = create(name, budget=1 / STEP, objective=objective, rng=np.random.default_rng(1), **parameters)
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    return allocator


def shares(allocator: Allocator, n: int) -> NDArray[np.float64]:
    """Polls per second of the first n sites."""
    found = allocator.shares(np.arange(n))
    assert found is not None
    return found


def polled(allocator: Allocator, n: int, times: int, rate: NDArray[np.float64] | None = None) -> NDArray[np.int64]:
    """Which site each step polled; pages change at `rate` (1/s), None: never."""
    rng, last, out = np.random.default_rng(3), np.full(n, NOW), np.empty(times, np.int64)
    for step in range(times):
        now = NOW + (step + 1) * STEP
        slots = allocator.select(now - last, now, np.ones(n, np.bool_), 1)
        gap = now - last[slots]
        changed = rng.random(1) < -np.expm1(-(np.zeros(1) if rate is None else rate[slots]) * gap)
        allocator.observe(slots, gap, EvidenceBatch(changed), now)
        last[slots], out[step] = now, slots[0]
    return out


def of_amounts(amounts: NDArray[np.float64], times: int) -> NDArray[np.int64]:
    """The order in which the scheduler alone polls sites with these amounts (Σ = 1), one a step."""
    scheduler, n = EarliestDeadlineFirst(), len(amounts)
    scheduler.grow(n)
    last, out, period = np.zeros(n), np.empty(times, np.int64), 1 / amounts
    for now in range(1, times + 1):
        slot = np.array([scheduler.lateness(now - last, period).argmax()])
        scheduler.polled(slot, now - last[slot], period[slot])
        last[slot], out[now - 1] = now, slot[0]
    return out


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=12))
@settings(deadline=None, max_examples=15)
def test_earliest_deadline_first_polls_at_the_amounts(parts: list[float]) -> None:
    """Utilisation is 1, so each deadline is met within the longest wait that one poll a step allows."""
    amounts = np.array(parts) / sum(parts)
    order = of_amounts(amounts, 300)
    counts = np.array([np.bincount(order[:upto], minlength=len(parts)) for upto in range(1, 301)])
    due = amounts * np.arange(1, 301)[:, None]
    assert np.abs(counts - due).max() <= 2.0


def test_polls_are_even() -> None:
    order = of_amounts(np.array([0.5, 0.25, 0.25]), 400)
    assert set(np.diff(np.flatnonzero(order == 0))) == {2}
    assert set(np.diff(np.flatnonzero(order == 1))) == {4}


def test_a_site_that_had_to_wait_does_not_make_up_for_all_of_it() -> None:
    scheduler = EarliestDeadlineFirst()
    scheduler.grow(2)
    scheduler.polled(np.array([0]), np.array([1e6]), np.array([10.0]))
    assert scheduler.credit.tolist() == [10.0, 0.0]
    scheduler.forget(np.array([0]))
    late = scheduler.lateness(np.array([np.inf, -5.0]), np.array([np.inf, 3.0]))
    assert np.isfinite(late).all()
    assert late[0] > 1e15
    assert late[1] < -1e11, "not released"


def test_who_was_polled_early_under_a_long_period_does_not_wait_for_it_where_periods_jump() -> None:
    late = []
    for jumps in (False, True):
        scheduler = EarliestDeadlineFirst(jumps=jumps)
        scheduler.grow(1)
        scheduler.polled(np.array([0]), np.array([40.0]), np.array([1_000.0]))  # 960 s before its deadline
        late.append([float(scheduler.lateness(np.array([gap]), np.array([20.0]))[0]) for gap in (30.0, 41.0)])
    assert max(late[0]) < -1e11, "released at its old deadline"
    assert late[1] == [30.0 - 20.0 - 20.0, 41.0 - 20.0 - 20.0]


# --- LAKG ------------------------------------------------------------------------------------------------------------


def lakg_states(allocator: Allocator, n: int) -> list[float]:
    """As stored; 0: not polled yet."""
    rows = np.ascontiguousarray(allocator.site_state(np.arange(n))).view("<f8")
    return [float(state) for state in rows[:, -1]]


def told(allocator: Allocator, slot: int, changed: bool) -> None:
    allocator.observe(np.array([slot]), np.array([5.0]), EvidenceBatch(np.array([changed])), NOW)


def test_lakg_moves_by_one_as_the_knapsack_is_full_or_not() -> None:
    allocator = made("lakg", 2, resolution=10, exponent=1.0)
    assert lakg_states(allocator, 2) == [0, 0], "they stand at 5 and 5: full"
    told(allocator, 0, True)
    assert lakg_states(allocator, 2) == [5, 0], "a reward in a full knapsack moves nothing"
    told(allocator, 0, False)
    assert lakg_states(allocator, 2) == [4, 0], "a penalty in a full knapsack takes one"
    told(allocator, 0, False)
    assert lakg_states(allocator, 2) == [4, 0], "a penalty where there is room moves nothing"
    told(allocator, 1, True)
    assert lakg_states(allocator, 2) == [4, 6], "a reward where there is room gives one"
    np.testing.assert_allclose(shares(allocator, 2), np.array([0.4, 0.6]) / 10, rtol=1e-12)
    for _ in range(30):
        told(allocator, 0, False)
        told(allocator, 1, False)
    states = lakg_states(allocator, 2)
    assert min(states) >= 1
    assert sum(states) == 9, "penalties alone end when there is room"


def test_lakg_leaves_room_for_any_number_of_sites() -> None:
    for sites in (1, 2, 512, 32_768, 10**6):
        exponent = LakgSettings().exponent_for(sites)
        assert exponent >= 1
        assert sites / 500**exponent <= 0.1 * (1 + 1e-9)
    assert LakgSettings(exponent=2.5).exponent_for(10**6) == 2.5
    allocator = made("lakg", 2000)
    np.testing.assert_allclose(shares(allocator, 2000), 1 / (2000 * STEP))
    for field, bad in (("resolution", 1), ("resolution", 2.5), ("exponent", -1.0), ("exponent", 11.0)):
        parameter: dict[str, Any] = {field: bad}
        with pytest.raises(InvalidValueError, match=field):
            create("lakg", budget=1.0, rng=np.random.default_rng(0), **parameter)


def test_lakg_learns_whose_share_is_larger() -> None:
    rate = np.array([0.03, 0.01])
    allocator = made("lakg", 2, resolution=100)
    order = polled(allocator, 2, 6000, rate)
    assert np.mean(order[3000:] == 0) == pytest.approx(0.75, abs=0.1)


def test_a_state_of_other_automata_is_refused() -> None:
    fine, coarse = made("lakg", 3), made("lakg", 3, resolution=100)
    with pytest.raises(InvalidValueError, match="resolution"):
        coarse.restore(np.arange(3), fine.site_state(np.arange(3)), fine.shared_state())


# --- by rates --------------------------------------------------------------------------------------------------------

RATES = np.array([0.2, 0.05, 0.02, 0.0])


def test_proportional_is_by_p_and_optimal_by_rate() -> None:
    p = -np.expm1(-RATES * STEP)
    np.testing.assert_allclose(shares(made("proportional", 4, rates=RATES), 4), p / p.sum() / STEP)
    np.testing.assert_allclose(shares(made("optimal", 4, rates=RATES), 4), RATES / RATES.sum() / STEP, atol=1e-12)
    shorter = shares(made("proportional", 4, rates=RATES, step=1e-6), 4)
    np.testing.assert_allclose(shorter, RATES / RATES.sum() / STEP, atol=1e-6)


@given(
    st.sampled_from(("changes", "freshness", "interest")),
    st.lists(st.tuples(st.floats(1e-4, 1.0), st.floats(0.2, 5.0), st.floats(0.3, 3.0)), min_size=2, max_size=6),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=60)
def test_no_other_split_is_better(objective: str, sites: list[tuple[float, float, float]], seed: int) -> None:
    """The Lagrange solution against random splits near to it and far from it, of the same budget."""
    rate, weight, cost = np.array(sites).T
    n, life = len(rate), np.full(len(rate), 60.0)
    allocator = create("optimal", budget=1 / STEP, objective=objective, rng=np.random.default_rng(0), rates=rate)
    allocator.add(np.arange(n), weight, cost, life)
    best = shares(allocator, n)
    assert best is not None
    assert best @ cost == pytest.approx(1 / STEP)
    amplitude, decay = amplitude_and_rate(objective, rate, weight, life)

    def worth(frequencies: NDArray[np.float64]) -> float:
        with np.errstate(divide="ignore"):
            return value(1 / frequencies, amplitude, decay)

    rng = np.random.default_rng(seed)
    for nearness in (0.01, 0.1, 1.0, 10.0):
        other = (best + 1e-9) * np.exp(rng.normal(0, nearness, n))
        other *= (1 / STEP) / (other @ cost)
        assert worth(other) <= worth(best) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("weight", "cost"), [(1.0, 1.0), (2.5, 1.0), (1.0, 3.0)])
def test_the_closed_form_of_equal_sites_is_the_price_s(weight: float, cost: float) -> None:
    """x_i = c λ_i / Σλ where it is used, and what is sought where it is not, are the same; one site never changes."""
    rate, n = np.array([0.4, 0.03, 0.002, 1e-6, 0.0]), 5
    allocator = create("optimal", budget=1 / STEP, objective="changes", rng=np.random.default_rng(0), rates=rate)
    allocator.add(np.arange(n), np.full(n, weight), np.full(n, cost))
    _, every = solve_price(1 / STEP, *amplitude_and_rate("changes", rate, np.full(n, weight), rate), np.full(n, cost))
    np.testing.assert_allclose(shares(allocator, n), 1 / every, rtol=1e-6)
    np.testing.assert_allclose(1 / every, rate / rate.sum() / STEP / cost, rtol=1e-6)


def test_told_rates_cover_every_slot() -> None:
    allocator = made("optimal", 4, rates=RATES)
    with pytest.raises(InvalidValueError, match="rates"):
        allocator.add(np.array([4]), np.ones(1), np.ones(1))
    with pytest.raises(InvalidValueError, match="rates"):
        made("proportional", 1, rates=np.array([-1.0]))
    with pytest.raises(InvalidValueError, match="step"):
        made("proportional", 1, step=-1.0)
    allocator.remove(np.array([0]))
    allocator.add(np.array([0]), np.ones(1), np.ones(1))
    np.testing.assert_array_equal(allocator.rates(), RATES)


@pytest.mark.parametrize("name", ["proportional", "optimal"])
def test_without_rates_the_polls_tell_them(name: str) -> None:
    rate = np.array([0.05, 0.005, 0.0005])
    allocator = made(name, 3)
    np.testing.assert_allclose(shares(allocator, 3), 1 / (3 * STEP))
    order = polled(allocator, 3, 1500, rate)
    assert (np.diff(np.bincount(order[500:], minlength=3)) < 0).all()
    np.testing.assert_allclose(allocator.rates()[:2], rate[:2], rtol=0.6)


def test_the_estimator_is_uniform_then_proportional() -> None:
    rate = np.array([0.05, 0.02, 0.005, 0.001])
    allocator = made("estimator", 4, phase=800)
    order = polled(allocator, 4, 800, rate)
    assert np.bincount(order).tolist() == [200] * 4
    estimates = allocator.rates()
    np.testing.assert_allclose(estimates, rate, rtol=0.6)
    p = -np.expm1(-estimates * STEP)
    np.testing.assert_allclose(shares(allocator, 4), p / p.sum() / STEP)
    polled(allocator, 4, 400, rate[::-1])
    np.testing.assert_array_equal(allocator.rates(), estimates)


def test_a_site_that_came_after_the_phase_is_estimated_from_its_own_polls() -> None:
    allocator = made("estimator", 2)
    polled(allocator, 2, 20, np.array([0.01, 0.01]))
    before = allocator.rates()
    allocator.add(np.array([2]), np.ones(1), np.ones(1))
    for _ in range(40):
        told(allocator, 2, True)
    after = allocator.rates()
    assert after[2] > 5 * math.log(2) / (3 * STEP)
    for _ in range(40):
        told(allocator, 2, False)
    assert allocator.rates()[2] == after[2], "ten polls, as the others had"
    np.testing.assert_allclose(after[:2], before, rtol=0.5)
    for bad in (-1, 2**60):
        with pytest.raises(InvalidValueError, match="phase"):
            create("estimator", budget=1.0, rng=np.random.default_rng(0), phase=bad)
