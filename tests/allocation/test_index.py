"""The index against calculus, the price solver against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.allocation.budget_split import value
from pollerd.allocation.index import amplitude_and_rate, g, g_inverse, index, periods, solve_price
from pollerd.allocation.registered import G_OBJECTIVES
from pollerd.errors import InvalidValueError
from tests.allocation.benefits import expected_benefit

NAN = np.array([np.nan])


def objective_value(objective: str, x: float, lam: float, w: float, half_life: float) -> float:
    """Value per second of one page polled x times a second, as the table of theory states it."""
    if objective == "changes":
        return w * x * -math.expm1(-lam / x)
    if objective == "freshness":
        return w * x * -math.expm1(-lam / x) / lam
    mu = math.log(2) / half_life
    return w * x * lam / mu * -math.expm1(-mu / x)


@pytest.mark.parametrize("objective", G_OBJECTIVES)
@pytest.mark.parametrize("tau", [10.0, 3_000.0, 1e5])
def test_index_is_the_derivative_of_the_value(objective: str, tau: float) -> None:
    lam, w, cost, life, x = 2e-4, 1.7, 2.5, 5_000.0, 1 / tau
    h = x * 1e-4
    slope = (objective_value(objective, x + h, lam, w, life) - objective_value(objective, x - h, lam, w, life)) / (
        2 * h
    )
    a, r = amplitude_and_rate(objective, np.array([lam]), np.array([w]), np.array([life]))
    got = index(np.array([tau]), a, r, np.array([cost]))[0]
    assert got == pytest.approx(slope / cost, rel=1e-4)


def test_interest_has_a_default_half_life_and_unknown_objectives_are_refused() -> None:
    _, r = amplitude_and_rate("interest", np.ones(1), np.ones(1), NAN)
    assert r[0] == pytest.approx(math.log(2) / 86_400)
    with pytest.raises(InvalidValueError):
        amplitude_and_rate("fun", np.ones(1), np.ones(1), NAN)


@given(st.floats(1e-150, 1e3))
def test_g_is_accurate_everywhere(z: float) -> None:
    exact = (
        math.fsum((-1) ** k * z**k * (k - 1) / math.factorial(k) for k in range(2, 30))
        if z < 0.5
        else 1 - (1 + z) * math.exp(-z)
    )
    assert g(np.array([z]))[0] == pytest.approx(exact, rel=1e-9)


@given(st.floats(1e-12, 0.999999))
def test_g_inverse_inverts(y: float) -> None:
    z = g_inverse(np.array([y]))
    assert g(z)[0] == pytest.approx(y, rel=1e-8)


def test_g_inverse_at_the_ends() -> None:
    assert g_inverse(np.array([0.0, 1.0, 3.0])).tolist() == [0.0, math.inf, math.inf]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.floats(1e-3, 1e4), st.sampled_from(G_OBJECTIVES), st.integers(0, 2**32 - 1))
def test_price_spends_the_budget_and_no_swap_gains(n: int, budget: float, objective: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates, weight, cost = rng.lognormal(-6, 2, n), rng.uniform(0.2, 3, n), rng.uniform(0.5, 4, n)
    a, r = amplitude_and_rate(objective, rates, weight, rng.uniform(1e3, 1e6, n))
    price, every = solve_price(budget, a, r, cost)
    assert 0 < price <= (a / cost).max()
    assert (cost / every).sum() == pytest.approx(budget, rel=1e-6)
    best = value(every, a, r)
    for _ in range(10):
        x = 1 / every
        donor, taker = rng.integers(n, size=2)
        moved = 0.3 * x[donor] * cost[donor]
        x[donor] -= moved / cost[donor]
        x[taker] += moved / cost[taker]
        with np.errstate(divide="ignore"):
            assert value(1 / x, a, r) <= best * (1 + 1e-6)


@pytest.mark.parametrize(
    ("objective", "frequencies", "worth"),
    [
        ("changes", [0.554478, 0.0, 0.083874, 0.002464, 0.000747], 0.523762936),
        ("freshness", [0.334245, 0.005138, 0.329426, 0.047642, 0.028749], 6.133363128),
        ("interest", [0.453506, 0.029387, 0.149864, 0.002335, 0.006969], 1.126102022),
    ],
)
def test_the_lagrange_solution_is_what_numerical_optimisation_finds(
    objective: str, frequencies: list[float], worth: float
) -> None:
    """Numbers of scipy 1.17.1: `minimize(method="SLSQP")`, the best of 20 random starts."""
    rates, weight = np.array([0.9, 0.3, 0.05, 0.004, 0.0007]), np.array([1.0, 0.5, 2.0, 1.0, 3.0])
    cost, life = np.array([1.0, 2.0, 0.5, 1.0, 1.5]), np.array([30.0, 600.0, 60.0, 5e3, 120.0])
    a, r = amplitude_and_rate(objective, rates, weight, life)
    _, every = solve_price(0.6, a, r, cost)
    assert value(every, a, r) == pytest.approx(worth, rel=1e-6)
    np.testing.assert_allclose(1 / every, frequencies, atol=2e-4)


def test_changes_with_equal_weights_share_by_rate() -> None:
    rates, one = np.array([1e-4, 3e-4, 6e-3]), np.ones(3)
    a, r = amplitude_and_rate("changes", rates, one, np.full(3, np.nan))
    budget = 0.05
    price, every = solve_price(budget, a, r, one)
    np.testing.assert_allclose(periods(price, a, r, one), every, rtol=1e-6)
    np.testing.assert_allclose(1 / every, budget * rates / rates.sum(), rtol=1e-6)
    got = expected_benefit(rates, one, one, budget)
    assert got.best == pytest.approx(budget * -math.expm1(-rates.sum() / budget), rel=1e-9)
    assert got.uniform < got.best
    assert got.uniform == pytest.approx(value(np.full(3, 3 / budget), a, r))


def test_benefit_leaves_unknown_rates_out() -> None:
    rates = np.array([1e-3, np.nan, 2e-3, 0.0])
    got = expected_benefit(rates, np.ones(4), np.ones(4), 0.1)
    assert np.isinf(got.periods[[1, 3]]).all()
    assert got.best > got.uniform > 0
    nothing = expected_benefit(np.full(2, np.nan), np.ones(2), np.ones(2), 1.0)
    assert (nothing.price, nothing.best, nothing.uniform) == (0.0, 0.0, 0.0)
