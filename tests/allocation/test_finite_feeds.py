"""`interest` for feeds that show their newest M items: formulas against sums, drawn feeds and value iteration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.finite_feeds import (
    FeedMixture,
    finite_index,
    finite_value,
    incomplete_gamma,
    log_gamma,
    most_collected,
    with_items_shown,
)
from pollerd.allocation.index import g
from pollerd.allocation.objectives import priced_sites

ITEMS = st.integers(1, 60)
RATES = st.floats(1e-3, 1e3)


def poisson_below(mean: float, number: int) -> float:
    """Returns the probability that a Poisson variable is below `number`, by the sum of its terms."""
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(number))


def collected_by_steps(rate: float, decay: float, items: int, step: float, steps: int) -> NDArray[np.float64]:
    """Returns what polls after 0, 1, … steps collect, float64[steps + 1]: by whether each item is still there."""
    each = [
        rate * step * math.exp(-decay * (j + 0.5) * step) * poisson_below(rate * (j + 0.5) * step, items)
        for j in range(steps)
    ]
    return np.concatenate([[0.0], np.cumsum(each)])


@given(st.integers(1, 300), st.floats(0.01, 8.0))
def test_incomplete_gamma_is_the_law_of_a_poisson_variable(items: int, share: float) -> None:
    mean = items * share
    lower, upper = incomplete_gamma(np.array(float(items)), np.array(mean))
    below = poisson_below(mean, items)
    assert upper == pytest.approx(below, rel=1e-9, abs=1e-21)
    assert lower == pytest.approx(1.0 - below, abs=1e-11)
    assert log_gamma(np.array(float(items))) == pytest.approx(math.lgamma(items), rel=1e-12, abs=1e-11)


@pytest.mark.parametrize(("rate", "decay", "items"), [(1.0, 0.1, 5), (2.0, 0.5, 20), (0.1, 3.0, 2), (5.0, 1e-4, 30)])
def test_a_poll_collects_what_is_still_there(rate: float, decay: float, items: int) -> None:
    step, steps = 0.01 / max(rate, decay), 2_000
    sums = collected_by_steps(rate, decay, items, step, steps)
    gaps = np.arange(steps + 1, dtype=np.float64) * step
    np.testing.assert_allclose(finite_value(gaps, rate, decay, items)[1:], sums[1:], rtol=1e-3)


def test_a_poll_collects_what_drawn_feeds_show() -> None:
    """Of 20,000 drawn feeds; the mean is within 4 standard errors but in 1 of 16,000 seeds."""
    rate, decay, items, gap = 3.0, 0.4, 7, 4.0
    rng = np.random.default_rng(5)
    found = []
    for number in rng.poisson(rate * gap, 20_000):
        newest = np.sort(rng.uniform(0, gap, number))[:items]
        found.append(np.exp(-decay * newest).sum())
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - float(finite_value(gap, rate, decay, items))) < 4 * error


@given(RATES, st.floats(1e-3, 1e3), ITEMS, st.floats(1e-3, 1e3))
def test_the_index_is_what_another_poll_a_second_brings(rate: float, decay: float, items: int, gap: float) -> None:
    x, step = 1.0 / gap, 1e-5 / gap
    often, seldom = (y * float(finite_value(1.0 / y, rate, decay, items)) for y in (x + step, x - step))
    brings = (often - seldom) / (2 * step)
    assert float(finite_index(gap, rate, decay, items)) == pytest.approx(
        brings, rel=1e-4, abs=1e-8 * max(rate / decay, 1.0)
    )


@given(RATES, st.floats(1e-3, 1e3), ITEMS)
def test_the_index_rises_to_what_is_there_at_most(rate: float, decay: float, items: int) -> None:
    gaps = np.geomspace(1e-4, 1e6, 400)
    index = finite_index(gaps, rate, decay, items)
    rounding = 1e-12 * index[1:] + 1e-15 * rate / decay
    assert (np.diff(index) >= -rounding).all()
    top = float(most_collected(np.array(rate), np.array(decay), np.array(float(items))))
    assert index[-1] == pytest.approx(top, rel=1e-9)
    assert (finite_value(gaps, rate, decay, items) <= min(items, rate / decay) * (1 + 1e-9)).all()


@given(RATES, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_many_items_are_as_if_none_was_dropped(rate: float, decay: float, gap: float) -> None:
    usual = rate / decay * g(np.array(decay * gap))
    enough = 20 + 2 * rate * gap
    assert float(finite_index(gap, rate, decay, np.inf)) == pytest.approx(float(usual), rel=1e-12)
    assert float(finite_index(gap, rate, decay, 10 * enough)) == pytest.approx(float(usual), rel=1e-6)


@given(RATES, ITEMS, st.floats(1e-3, 1e3))
def test_without_decay_the_index_is_the_chance_of_a_loss(rate: float, items: int, gap: float) -> None:
    """M P(M + 1, λτ), the limit for a slow decay."""
    expected = items * float(incomplete_gamma(np.array(items + 1.0), np.array(rate * gap))[0])
    decay = 1e-6 / max(gap, items / rate)
    assert float(finite_index(gap, rate, decay, items)) == pytest.approx(expected, rel=1e-4, abs=1e-6 * rate * gap)


def feeds_of(seed: int, n: int = 12) -> tuple[FeedMixture, NDArray[np.float64], NDArray[np.float64]]:
    """Feeds and pages at known rates, their costs, and the values that polls of them after gaps collect."""
    rng = np.random.default_rng(seed)
    rates, weight, cost = rng.lognormal(-4, 1.5, n), rng.uniform(0.2, 3.0, n), rng.uniform(0.5, 3.0, n)
    life, items = rng.uniform(1e2, 1e5, n), rng.choice([np.nan, 5.0, 30.0], n)
    items[0] = 10.0
    belief = (rates[:, None], np.ones((n, 1)))
    sites = with_items_shown(
        priced_sites(belief, weight, cost, life, np.zeros(n), "interest"), weight, items, "interest"
    )
    assert isinstance(sites, FeedMixture)
    gaps = np.geomspace(1.0, 1e6, 50)
    shown = np.where(np.isnan(items), np.inf, items)[:, None]
    values = weight[:, None] * finite_value(gaps, rates[:, None], np.log(2) / life[:, None], shown)
    for gap, each in zip(gaps, values.T, strict=True):
        assert sites.value(np.full(n, gap)) == pytest.approx(float(each.sum() / gap), rel=1e-9)
    return sites, cost, weight


@pytest.mark.parametrize("seed", range(5))
def test_no_swap_improves_the_best_split_of_feeds(seed: int) -> None:
    sites, cost, _ = feeds_of(seed)
    rng, budget = np.random.default_rng(seed), 0.05
    price, every = sites.split(budget)
    best = sites.value(every)
    assert price > 0
    assert (cost / every).sum() == pytest.approx(budget, rel=1e-6)
    for _ in range(50):
        x = 1.0 / every
        donor, taker = rng.integers(len(x), size=2)
        moved = 0.2 * x[donor] * cost[donor]
        x[donor] -= moved / cost[donor]
        x[taker] += moved / cost[taker]
        assert sites.value(1.0 / np.maximum(x, 1e-12)) <= best * (1 + 2e-4)


def test_other_objectives_and_pages_know_no_feeds() -> None:
    belief, ones = (np.full((2, 1), 0.1), np.ones((2, 1))), np.ones(2)
    usual = priced_sites(belief, ones, ones, ones, ones, "interest")
    assert with_items_shown(usual, ones, np.full(2, np.nan), "interest") is usual
    assert with_items_shown(usual, ones, np.full(2, 3.0), "changes") is usual


def test_no_items_come_at_rate_0() -> None:
    assert float(finite_index(5.0, 0.0, 0.1, 3.0)) == 0.0
    assert float(finite_value(5.0, 0.0, 0.1, 3.0)) == 0.0
    assert float(most_collected(np.array(0.0), np.array(0.1), np.array(3.0))) == 0.0


def best_threshold(collected: NDArray[np.float64], price: float) -> int:
    """Returns the age in steps from which polling is best at a price per poll, by relative value iteration.

    The state is the number of steps since the last poll, at most len(collected) - 1; a poll brings `collected` less the
    price, and the next state is 1. Knows nothing of indices. Sweeps are lazy by half, which makes the chain aperiodic.
    """
    states = len(collected)
    value = np.zeros(states)
    following = np.minimum(np.arange(states) + 1, states - 1)
    for _ in range(200_000):
        poll, wait = collected - price + value[1], value[following]
        new = 0.5 * value + 0.5 * np.maximum(poll, wait)
        new -= new[0]
        if np.abs(new - value).max() < 1e-10:
            break
        value = new
    polls = collected - price + value[1] >= value[following]
    first = int(polls.argmax()) if polls.any() else states
    assert polls[first:].all(), "a threshold policy is best"
    return first


@pytest.mark.parametrize(("rate", "decay", "items"), [(1.0, 0.05, 3), (1.0, 0.5, 3), (0.6, 0.01, 5)])
def test_the_index_is_that_of_value_iteration(rate: float, decay: float, items: int) -> None:
    """On small feeds: the best age to poll rises with the price (indexability), and crosses each age at its index."""
    step, steps = 0.1, 300
    collected = collected_by_steps(rate, decay, items, step, steps)
    top = float(most_collected(np.array(rate), np.array(decay), np.array(float(items))))
    prices = [top * share for share in (0.05, 0.2, 0.4, 0.6, 0.8)]
    ages = [best_threshold(collected, price) for price in prices]
    assert ages == sorted(ages)
    assert ages[-1] < steps - 2
    index = finite_index(np.arange(steps + 1, dtype=np.float64) * step, rate, decay, items)
    for price, age in zip(prices, ages, strict=True):
        assert index[max(age - 2, 0)] <= price <= index[age + 2], (price, age)
