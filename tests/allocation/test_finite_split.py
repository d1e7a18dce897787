"""The best split for known rates where feeds show their newest M items, and `optimal`, which goes by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.finite_feeds import (
    finite_index,
    finite_periods,
    finite_value,
    index_at,
    most_collected,
    split_with_feeds,
)
from pollerd.allocation.index import decay_rates, solve_price
from pollerd.allocation.registry import create

SIZES = st.floats(-5.0, 5.0).map(np.exp)


def drawn(seed: int, n: int = 40) -> dict[str, NDArray[np.float64]]:
    """Feeds and pages with rates, half-lives, numbers of items, weights and costs of their own."""
    rng = np.random.default_rng(seed)
    return {
        "rates": rng.lognormal(-4, 1.5, n),
        "decay": np.log(2) / rng.uniform(1e2, 1e5, n),
        "items": rng.choice([np.nan, 1.0, 2.0, 10.0, 50.0], n),
        "weight": rng.uniform(0.2, 3.0, n),
        "cost": rng.uniform(0.5, 3.0, n),
    }


@given(SIZES, SIZES, st.integers(1, 200), SIZES)
def test_parts_of_the_index_agree(rate: float, decay: float, items: int, gap: float) -> None:
    of = [np.array([float(x)]) for x in (gap, rate, decay, items)]
    found, limit = index_at(*of), most_collected(*of[1:])
    index = finite_index(*of)
    np.testing.assert_allclose(found.index, index, rtol=1e-9, atol=1e-13 * rate / decay)
    np.testing.assert_allclose(found.missing, limit - index, rtol=1e-9, atol=1e-12 * rate / decay)
    step = 1e-4 * gap
    ends = [finite_index(of[0] + by, *of[1:]) for by in (-step, step)]
    np.testing.assert_allclose(found.slope, (ends[1] - ends[0]) / (2 * step), rtol=2e-3, atol=1e-9 * rate / decay / gap)


@given(st.floats(1e-9, 1.0 - 1e-9), SIZES, SIZES, st.integers(1, 200))
def test_periods_are_where_the_index_reaches_its_share(share: float, rate: float, decay: float, items: int) -> None:
    of = [np.array([float(x)]) for x in (rate, decay, items)]
    gap = finite_periods(np.array([share]), np.array([1.0 - share]), *of)
    limit = most_collected(*of)
    np.testing.assert_allclose(finite_index(gap, *of), share * limit, rtol=1e-6, atol=1e-12 * rate / decay)


@pytest.mark.parametrize("seed", range(3))
def test_without_feeds_it_is_the_split_of_other_sites(seed: int) -> None:
    of = drawn(seed) | {"items": np.full(40, np.nan)}
    price, every = split_with_feeds(0.05, **of)
    theta, expected = solve_price(0.05, of["weight"] * of["rates"] / of["decay"], of["decay"], of["cost"])
    assert price == pytest.approx(theta)
    np.testing.assert_allclose(every, expected, rtol=1e-9)


@pytest.mark.parametrize("budget", [1e-9, 0.05, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_the_budget_is_spent_at_one_price(seed: int, budget: float) -> None:
    of = drawn(seed)
    price, every = split_with_feeds(budget, **of)
    assert (of["cost"] / every).sum() == pytest.approx(budget, rel=1e-9)
    shown = np.where(np.isnan(of["items"]), np.inf, of["items"])
    polled = np.isfinite(every)
    index = of["weight"] / of["cost"] * finite_index(np.where(polled, every, 1e12), of["rates"], of["decay"], shown)
    if budget < 1e6:  # the index cancels at the shortest gaps; the split does not
        np.testing.assert_allclose(index[polled], price, rtol=1e-6)
    assert (index[~polled] <= price * (1 + 1e-9)).all()


def test_sites_without_value_are_never_polled() -> None:
    of = drawn(0) | {"rates": np.zeros(40)}
    price, every = split_with_feeds(1.0, **of)
    assert price == 0
    assert np.isinf(every).all()


def test_optimal_goes_by_the_number_of_items_under_interest() -> None:
    """Its shares are those of the best split, and bring more of what feeds show than those that do not know it."""
    of, n, budget = drawn(4), 40, 0.05
    half_life = np.log(2) / of["decay"]
    policy = create("optimal", budget=budget, objective="interest", rng=np.random.default_rng(0), rates=of["rates"])
    policy.add(np.arange(n), of["weight"], of["cost"], half_life)
    before = policy.shares(np.arange(n))
    policy.set_items_shown(np.arange(n), of["items"])
    after = policy.shares(np.arange(n))
    assert before is not None
    assert after is not None
    expected = split_with_feeds(
        budget, of["rates"], decay_rates(half_life), *(of[x] for x in ("items", "weight", "cost"))
    )
    np.testing.assert_array_equal(after, 1.0 / expected[1])
    shown = np.where(np.isnan(of["items"]), np.inf, of["items"])

    def value(shares: NDArray[np.float64]) -> float:
        gap = 1.0 / np.maximum(shares, 1e-12)
        return float((of["weight"] * finite_value(gap, of["rates"], of["decay"], shown) / gap).sum())

    assert value(after) > 1.02 * value(before)


@pytest.mark.parametrize("objective", ["changes", "freshness", "interest", "delay"])
def test_optimal_without_a_number_of_items_chooses_as_ever(objective: str) -> None:
    of, n = drawn(5), 40
    shares = []
    for numbers in (None, np.full(n, np.nan), of["items"]):
        policy = create("optimal", budget=0.05, objective=objective, rng=np.random.default_rng(0), rates=of["rates"])
        policy.add(np.arange(n), of["weight"], of["cost"])
        if numbers is not None:
            policy.set_items_shown(np.arange(n), numbers)
        shares.append(policy.shares(np.arange(n)))
    np.testing.assert_array_equal(shares[0], shares[1])
    assert np.array_equal(np.asarray(shares[0]), np.asarray(shares[2])) == (objective != "interest")
    assert policy.counts_items == (objective == "interest")


def test_a_removed_feed_is_a_page_again() -> None:
    policy = create("optimal", budget=0.05, objective="interest", rng=np.random.default_rng(0), rates=np.full(2, 0.1))
    policy.add(np.arange(2), np.ones(2), np.ones(2))
    policy.set_items_shown(np.array([1]), np.array([2.0]))
    assert np.ptp(np.asarray(policy.shares(np.arange(2)))) > 0
    policy.remove(np.array([1]))
    policy.add(np.array([1]), np.ones(1), np.ones(1))
    assert np.ptp(np.asarray(policy.shares(np.arange(2)))) == 0
