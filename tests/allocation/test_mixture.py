"""The best split under a belief: against closed forms, against swaps, and against polling a simulated web."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.budget_split import value
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import CrossingTimes, Mixture, amplitude_and_rate, solve_price
from pollerd.allocation.registered import G_OBJECTIVES
from pollerd.allocation.registry import create

LATTICE = np.geomspace(1e-7, 1e-1, 24)[None]
NOW = 1.75e9


def test_crossings_are_where_the_largest_so_far_reaches_the_level() -> None:
    gaps = np.array([1.0, 10.0, 100.0])
    found = CrossingTimes(gaps, np.array([[1.0, 10.0, 100.0], [2.0, 1.0, 4.0], [0.0, 0.0, 0.0], [5.0, 5.0, 5.0]]))
    np.testing.assert_allclose(found.at(np.log(5.0)), [5.0, np.inf, np.inf, 1.0], rtol=1e-5)
    np.testing.assert_allclose(found.at(np.log(3.0))[:2], [3.0, 10 * 10 ** (np.log(1.5) / np.log(2))], rtol=1e-5)
    assert found.at(np.log(0.5))[0] == pytest.approx(0.5)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.floats(1e-3, 1e3), st.sampled_from(G_OBJECTIVES), st.integers(0, 2**32 - 1))
def test_a_belief_in_one_rate_gives_the_closed_form(n: int, budget: float, objective: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates, weight, cost = rng.lognormal(-6, 2, n), rng.uniform(0.2, 3, n), rng.uniform(0.5, 4, n)
    life = rng.uniform(1e3, 1e6, n)
    amplitude, rate = amplitude_and_rate(objective, rates, weight, life)
    exact_price, every = solve_price(budget, amplitude, rate, cost)
    mixture = Mixture.believed((rates[:, None], np.ones((n, 1))), weight, cost, life, np.zeros(n), objective)
    price, found = mixture.split(budget)
    assert (cost / found).sum() == pytest.approx(budget, rel=1e-6)
    assert mixture.value(found) == pytest.approx(value(every, amplitude, rate), rel=1e-4)
    assert price == pytest.approx(exact_price, rel=0.02)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.floats(1e-3, 1.0), st.sampled_from(G_OBJECTIVES), st.integers(0, 2**32 - 1))
def test_no_swap_gains_and_no_floor_is_broken(n: int, budget: float, objective: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares, weight, cost = rng.dirichlet(np.full(24, 0.3), n), rng.uniform(0.2, 3, n), rng.uniform(0.5, 4, n)
    floor = rng.uniform(1.0, 30.0, n)
    mixture = Mixture.believed((LATTICE, shares), weight, cost, rng.uniform(1e3, 1e6, n), floor, objective)
    price, every = mixture.split(budget)
    best = mixture.value(every)
    assert (every >= floor).all()
    assert (cost / every).sum() == pytest.approx(budget, rel=1e-6) or price == 0.0
    for _ in range(10):
        x = 1 / every
        donor, taker = rng.integers(n, size=2)
        moved = 0.3 * x[donor] * cost[donor]
        x[donor] -= moved / cost[donor]
        x[taker] += moved / cost[taker]
        if x[taker] * floor[taker] <= 1.0:
            with np.errstate(divide="ignore"):
                assert mixture.value(1 / x) <= best * (1 + 1e-5)


def test_doubt_is_worth_less_than_the_mean_rate() -> None:
    rates, doubt = np.array([[1e-4, 1e-2]]), np.array([[0.5, 0.5]])
    one, nan = np.ones(1), np.full(1, np.nan)
    believed = Mixture.believed((rates, doubt), one, one, nan, np.zeros(1), "changes")
    gap = np.array([300.0])
    assert believed.value(gap) == pytest.approx(np.mean(-np.expm1(-rates * 300.0)) / 300.0)
    assert believed.value(gap) < -np.expm1(-rates.mean() * 300.0) / 300.0


def test_what_is_not_known_is_never_polled_and_an_ample_budget_has_no_price() -> None:
    one, nan = np.ones(2), np.full(2, np.nan)
    rates = np.array([[1e-3], [np.nan]])
    mixture = Mixture.believed((rates, np.ones((2, 1))), one, one, nan, np.full(2, 30.0), "changes")
    price, every = mixture.split(1.0)
    assert price == 0.0
    assert every == pytest.approx([30.0, np.inf])
    unknown = Mixture.believed((nan[:, None], np.ones((2, 1))), one, one, nan, np.zeros(2), "changes")
    price, every = unknown.split(1.0)
    assert (price, unknown.value(every)) == (0.0, 0.0)


PAGES, TOGETHER = 300, 4


class Web:
    """Pages that change by Poisson processes of rates drawn from a log-normal; `TOGETHER` are polled at a time."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rates = self.rng.lognormal(-8.0, 1.0, PAGES)
        self.last = np.full(PAGES, NOW)
        self.now = NOW

    def poll(self, allocator: Allocator, polls: int) -> float:
        """Changes per second that so many polls at the allocator's budget find in expectation: by the true chances."""
        found, began = 0.0, self.now
        for _ in range(polls // TOGETHER):
            self.now += TOGETHER / allocator.budget
            slots = allocator.select(self.now - self.last, self.now, np.ones(PAGES, np.bool_), TOGETHER)
            gap = self.now - self.last[slots]
            chance = -np.expm1(-self.rates[slots] * gap)
            allocator.observe(slots, gap, EvidenceBatch(self.rng.random(TOGETHER) < chance), self.now)
            self.last[slots] = self.now
            found += float(chance.sum())
        return found / (self.now - began)


@pytest.fixture(scope="module")
def learned() -> list[tuple[Web, Allocator]]:
    """Three webs, and `whittle` after 50 polls a page of each at a budget of the pages' total rate."""
    return [taught(Web(seed)) for seed in (3, 4, 5)]


def taught(web: Web) -> tuple[Web, Allocator]:
    allocator = create("whittle", budget=float(web.rates.sum()), rng=web.rng)
    allocator.add(np.arange(PAGES), np.ones(PAGES), np.ones(PAGES))
    web.poll(allocator, 50 * PAGES)
    return web, allocator


def best(allocator: Allocator, budget: float) -> float:
    one: NDArray[np.float64] = np.ones(PAGES)
    belief = allocator.belief_of(np.arange(PAGES))
    mixture = Mixture.believed(belief, one, one, np.full(PAGES, np.nan), one * TOGETHER / budget, "changes")
    return mixture.value(mixture.split(budget)[1])


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
def test_other_budgets_find_what_the_curve_says(learned: list[tuple[Web, Allocator]], factor: float) -> None:
    """Over eight seeds single webs found .957 to 1.016 of it, with .978 ± .017 at worst (factor 4).

    So the mean of three falls below .95 once in 400 seeds.
    """
    shares = []
    for web, allocator in copy.deepcopy(learned):
        budget = allocator.budget * factor
        foretold = best(allocator, budget)
        allocator.budget = budget
        web.poll(allocator, 2 * PAGES)
        shares.append(web.poll(allocator, 3_000) / foretold)
    assert np.mean(shares) == pytest.approx(1.0, abs=0.05)
