"""Delays, splits of any budget and the budget that a goal needs: against simulated changes, closed forms and bounds."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import CrossingTimes, Delays, Mixture, typical_rates
from pollerd.allocation.periods import Goal, PeriodBounds, Split, by_price, by_shares, by_urgency, gaps_around, plan
from pollerd.allocation.registry import create

ALLOWED = (0.01, 10_000.0)


def free(number: int, **given: NDArray[np.float64]) -> PeriodBounds:
    """No bounds but those given; every site has its own host."""
    bounds = {
        "shortest": np.zeros(number),
        "longest": np.full(number, np.inf),
        "capacity": np.full(number, np.inf),
        **given,
    }
    return PeriodBounds(capped=np.zeros(number, np.bool_), host=np.arange(number), **bounds)


def mixture(rates: NDArray[np.float64], weight: NDArray[np.float64] | None = None) -> Mixture:
    one = np.ones(len(rates))
    belief = (rates[:, None], one[:, None])
    return Mixture.believed(belief, one if weight is None else weight, one, one * np.nan, 0 * one, "changes")


def test_delays_are_those_of_poisson_changes_under_periodic_polls() -> None:
    rng = np.random.default_rng(3)
    periods, rates = np.array([50.0, 400.0, 3_000.0]), np.array([0.02, 0.001, 0.004])
    late = []
    for period, rate in zip(periods, rates, strict=True):
        at = rng.uniform(0, 3e6, rng.poisson(rate * 3e6))
        late.append(np.ceil(at / period) * period - at)
    seen, found = np.concatenate(late), Delays(periods, rates)
    for within in (10.0, 50.0, 200.0, 1_000.0, 3_000.0):
        assert found.share(within) == pytest.approx(np.mean(seen <= within), abs=0.01)
    for share in (0.1, 0.5, 0.9, 0.99):
        assert found.quantile(share) == pytest.approx(np.quantile(seen, share), rel=0.05)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.floats(0.01, 0.99), st.integers(0, 2**32 - 1))
def test_a_quantile_is_where_the_share_is_reached(number: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    periods = np.where(rng.random(number) < 0.2, np.inf, rng.lognormal(6, 2, number))
    found = Delays(periods, rng.lognormal(-6, 2, number))
    within = found.quantile(share)
    if within == math.inf:
        assert found.share(1e300) < share
    else:
        assert found.share(within) == pytest.approx(share, rel=1e-9)


def test_without_changes_or_polls_there_is_no_delay_to_tell() -> None:
    for periods, rates in ((np.empty(0), np.empty(0)), (np.array([3.0]), np.zeros(1))):
        assert math.isnan(Delays(periods, rates).share(10.0))
        assert math.isnan(Delays(periods, rates).quantile(0.5))
    never = Delays(np.array([np.inf]), np.ones(1))
    assert (never.share(10.0), never.quantile(0.5)) == (0.0, math.inf)


def test_a_typical_rate_is_the_median_and_shares_its_place_between_rates() -> None:
    rates = np.array([[1.0, 10.0, 100.0]])
    shares = np.array([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.6, 0.0, 0.4], [np.nan] * 3])
    found = typical_rates((rates, shares))
    assert found[[0, 2]] == pytest.approx([10.0, 1.0])
    assert found[1] == pytest.approx(math.sqrt(10.0))
    assert 1.0 < found[3] < 100.0
    assert math.isnan(found[4])
    assert typical_rates((np.array([[2.0], [np.nan]]), np.ones((2, 1)))).tolist()[0] == 2.0


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.floats(0.02, 100.0), st.integers(0, 2**32 - 1))
def test_without_bounds_it_is_the_best_split(number: int, budget: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = mixture(rng.lognormal(-6, 2, number), rng.uniform(0.5, 2, number))
    split = Split(by_price(index), free(number), np.ones(number), np.ones(number))
    found, best = split.periods(budget), index.split(budget)[1]
    assert split.spending(found) == pytest.approx(budget, rel=1e-5)
    assert index.value(found) == pytest.approx(index.value(best), rel=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_bounds_of_sites_and_hosts_are_kept_and_more_budget_polls_nobody_less(
    number: int, hosts: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    shortest = rng.lognormal(3, 2, number)
    bounds = PeriodBounds(
        shortest,
        np.where(rng.random(number) < 0.3, rng.lognormal(9, 1, number), np.inf),
        rng.random(number) < 0.2,
        rng.integers(hosts, size=number),
        rng.lognormal(-4, 2, hosts),
    )
    cost, sites = rng.uniform(0.5, 4, number), rng.integers(1, 9, number).astype(np.float64)
    preference = by_price(mixture(rng.lognormal(-6, 2, number)))
    split = Split(preference, bounds, cost, sites)
    for budget in (0.05, 0.5, 5.0, 50.0, 5_000.0):
        every = split.periods(budget)
        assert (every >= shortest * (1 - 1e-9)).all()
        assert (every >= bounds.capped * (cost @ sites) / budget * (1 - 1e-9)).all()
        load = np.bincount(bounds.host, 1 / every, hosts)
        assert (load <= bounds.capacity * (1 + 1e-6)).all()
        assert split.spending(every) <= budget * (1 + 1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_a_larger_budget_polls_no_site_less_often(number: int, hosts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    unbounded, free_of_cycle = np.full(number, np.inf), np.zeros(number, np.bool_)
    host, capacity = rng.integers(hosts, size=number), rng.lognormal(-4, 2, hosts)
    bounds = PeriodBounds(rng.lognormal(3, 2, number), unbounded, free_of_cycle, host, capacity)
    preference = by_price(mixture(rng.lognormal(-6, 2, number)))
    split = Split(preference, bounds, rng.uniform(0.5, 4, number), np.ones(number))
    every = [*(split.periods(budget) for budget in (0.05, 0.5, 5.0, 50.0, 5_000.0)), split.unlimited()]
    for fewer, more in pairwise(every):
        assert (more <= fewer * (1 + 1e-3)).all()


def test_on_a_crowded_host_the_busiest_pages_go_first() -> None:
    rates = np.array([1e-3, 1e-3, 1e-6, 1e-6, 1e-3])
    bounds = PeriodBounds(
        np.full(5, 30.0), np.full(5, np.inf), np.zeros(5, np.bool_), np.array([0, 0, 0, 0, 1]), np.array([0.005, 1.0])
    )
    every = Split(by_price(mixture(rates)), bounds, np.ones(5), np.ones(5)).unlimited()
    assert (1 / every[:4]).sum() == pytest.approx(0.005)
    assert every[0] == pytest.approx(every[1])
    assert every[0] < 500.0 < 4_000.0 < every[2]
    assert every[4] == pytest.approx(30.0)


def test_a_host_that_allows_less_than_any_gap_of_the_table_is_polled_as_it_allows() -> None:
    bounds = free(1, capacity=np.array([1e-9]))
    every = Split(by_price(mixture(np.array([1.0]))), bounds, np.ones(1), np.ones(1)).unlimited()
    assert every[0] == pytest.approx(1e9, rel=1e-3)


def test_longest_periods_that_the_budget_does_not_hold_grow_alike() -> None:
    longest = np.array([10.0, 20.0])
    split = Split(by_price(mixture(np.array([1e-3, 1e-5]))), free(2, longest=longest), np.ones(2), np.ones(2))
    assert split.periods(0.015) == pytest.approx(longest * 10.0)
    assert (split.periods(0.5) <= longest).all()


def test_uniform_policies_and_shares_have_their_own_splits() -> None:
    gaps = np.geomspace(1.0, 1e6, 64)
    same = by_urgency(CrossingTimes(gaps, np.tile(gaps, (4, 1))))
    assert Split(same, free(4), np.ones(4), np.ones(4)).periods(2.0) == pytest.approx([2.0] * 4, rel=1e-4)
    shares = by_shares(np.array([0.5, 0.25, 0.25, 0.0]))
    found = Split(shares, free(4), np.ones(4), np.ones(4)).periods(2.0)
    assert found == pytest.approx([1.0, 2.0, 2.0, np.inf], rel=1e-4)


def test_what_waits_too_long_is_polled_whatever_its_urgency() -> None:
    gaps = np.geomspace(1.0, 500.0, 64)
    table = CrossingTimes(gaps, np.stack([gaps, gaps * 1e-9, gaps * 0.0]))
    split = Split(by_urgency(table, starvation=3 * 50.0), free(3), np.ones(3), np.ones(3))
    assert split.periods(1.0) == pytest.approx([1 / (1 - 2 / 150), 150.0, 150.0], rel=1e-3)
    assert split.periods(10.0)[1:] == pytest.approx([15.0, 15.0], rel=1e-3)
    assert (split.unlimited() < 1e-100).all()


@pytest.mark.parametrize(("share", "within"), [(0.5, 100.0), (0.9, 1_800.0), (0.99, 30.0)])
def test_equal_pages_need_the_budget_of_the_closed_form(share: float, within: float) -> None:
    number, rates = 200, np.full(200, 1e-4)
    split = Split(by_price(mixture(rates)), free(number), np.ones(number), np.ones(number))
    found = plan(split, rates, Goal(share, within), 1.0, ALLOWED)
    assert found.needed == pytest.approx(number * share / within, rel=2e-3)
    assert found.now == pytest.approx([number] * number, rel=1e-3)


def test_what_no_budget_reaches_has_no_budget() -> None:
    rates = np.array([1e-3, 1e-3])
    bounds = free(2, shortest=np.array([30.0, 2_000.0]))
    split = Split(by_price(mixture(rates)), bounds, np.ones(2), np.ones(2))
    assert plan(split, rates, Goal(0.8, 1_000.0), 1.0, ALLOWED).needed is None
    assert plan(split, rates, Goal(0.7, 1_000.0), 1.0, ALLOWED).needed is not None
    assert plan(split, rates, Goal(0.7, 100.0), 1.0, (1e-4, 1e-3)).needed is None, "beyond the largest allowed"
    assert plan(split, rates, Goal(0.001, 1_000.0), 1.0, ALLOWED).needed == 0.01, "the smallest allowed is enough"
    assert plan(split, np.zeros(2), Goal(0.5, 1_000.0), 1.0, ALLOWED).needed is None


def test_whittle_polls_at_the_periods_of_its_urgencies() -> None:
    rng = np.random.default_rng(2)
    number, rates = 40, rng.lognormal(-6, 1, 40)
    policy = create("whittle", budget=0.2, rng=rng)
    policy.add(np.arange(number), np.ones(number), np.ones(number))
    for turn in range(60):
        gap = rng.uniform(100.0, 600.0, number)
        policy.observe(np.arange(number), gap, EvidenceBatch(rng.random(number) < -np.expm1(-rates * gap)), 1e9 + turn)
    np.testing.assert_allclose(*periods_of(policy, learn=False), rtol=0.2)


def test_optimal_polls_at_the_periods_of_its_price() -> None:
    rates = np.random.default_rng(2).lognormal(-6, 1, 40)
    policy = create("optimal", budget=0.2, rng=np.random.default_rng(1), rates=rates)
    policy.add(np.arange(40), np.ones(40), np.ones(40))
    np.testing.assert_allclose(*periods_of(policy, learn=True), rtol=0.2)


def periods_of(policy: Allocator, *, learn: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Periods of the pages that are polled often: as planned, and as it polls; learn: told of unchanged pages."""
    number = len(policy.rates())
    slots, one = np.arange(number), np.ones(number)
    if policy.polls_at_price:
        preference = by_price(Mixture.believed(policy.belief_of(slots), one, one, one * np.nan, 0 * one, "changes"))
    else:
        gaps = gaps_around(number / policy.budget, policy.starvation_gap)
        urgency = [policy.urgency_of(slots, np.full(number, gap), 1e9 + 60) for gap in gaps]
        preference = by_urgency(CrossingTimes(gaps, np.stack(urgency, axis=1)), policy.starvation_gap * policy.budget)
    wanted = Split(preference, free(number), one, one).periods(policy.budget)
    count, last, now = np.zeros(number), np.full(number, 1e9), 1e9 + 60
    for _ in range(4_000):
        now += 1.0 / policy.budget
        slots = policy.select(now - last, now if learn else 1e9 + 60, np.ones(number, np.bool_), 1)
        if learn:
            policy.observe(slots, now - last[slots], EvidenceBatch(np.array([False])), now)
        count[slots] += 1
        last[slots] = now
    often = count > 60
    assert often.sum() > 10
    return wanted[often], 4_000 / policy.budget / count[often]
