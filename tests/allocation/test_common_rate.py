"""The hypothesis that all pages change at one rate: it rules where they do, and yields where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create
from pollerd.allocation.whittle import grid
from pollerd.allocation.whittle.clock import COMMON_RATE_LOG_PRIOR_ODDS as LOG_PRIOR_ODDS
from pollerd.allocation.whittle.clock import MAX_BEHIND, CommonRate
from pollerd.allocation.whittle.whittle import Whittle
from pollerd.lab.environments.web import Policy
from pollerd.lab.environments.worlds import Web
from pollerd.lab.environments.zipf import Zipf

SITES = 100
CYCLE = 1000.0
LATTICE = grid.Lattice(float(np.log(2e-6)), 0.6)


def learned(rates: np.ndarray, rng: np.random.Generator, cycles: int) -> CommonRate:
    """One poll a second, by the allocator's own choice; rates float64[SITES] in 1/s."""
    allocator = create("whittle", budget=1.0, rng=rng)
    assert isinstance(allocator, Whittle)
    allocator.add(np.arange(SITES), np.ones(SITES), np.ones(SITES))
    last = np.zeros(SITES)
    for poll in range(cycles * SITES):
        now = poll + 1.0
        slot = allocator.select(now - last, now, np.ones(SITES, bool), 1)
        gap = now - last[slot]
        allocator.observe(slot, gap, EvidenceBatch(rng.random(1) < -np.expm1(-rates[slot] * gap)), now)
        last[slot] = now
    return allocator.belief.common_rate


@pytest.mark.parametrize("seed", range(3))
def test_pages_that_differ_are_told_apart(seed: int) -> None:
    """One rate for all must lose a lead of e^3 in four cycles: it lost more than e^6 with each of 60 seeds."""
    rng = np.random.default_rng(seed)
    rates = rng.permutation(np.geomspace(1e-4, 1.0, SITES))
    assert learned(rates, rng, 4).weight > 0.5


def test_few_pages_that_differ_are_told_apart_within_some_polls_of_each() -> None:
    """Eight Zipf pages, polls 16 to 48: .877 of the optimum, .773 with the doubt of many sites; standard errors .02."""
    web = Web(Zipf(pages=8, alpha=0.9, beta=1.5, order="shuffled"))
    shares = [web.shares(Policy("whittle"), (16, 48), np.random.SeedSequence(seed))[1] for seed in range(20)]
    assert np.mean(shares) > 0.825


@pytest.mark.parametrize("seed", range(3))
def test_pages_that_are_alike_are_polled_in_turn(seed: int) -> None:
    """Beliefs win e^3 over the truth in fewer than 1 in 20 runs (Ville); all three runs must do so for it to fail."""
    weights = [learned(np.full(SITES, 1 / SITES), np.random.default_rng(3 * seed + i), 3).weight for i in range(3)]
    assert min(weights) < 0.5


def test_the_rate_of_all_is_found() -> None:
    """From 2,000 polls the rate is known to 4 %; the test allows 20 %: five standard errors."""
    rng, alike, rate = np.random.default_rng(1), CommonRate(LATTICE, CYCLE), 2e-3
    gap = rng.exponential(1000.0, 2000)
    changed = rng.random(2000) < -np.expm1(-rate * gap)
    alike.observe(LATTICE, gap, changed, np.full(2000, 0.5), np.zeros(2000, np.bool_), 1)
    alike.refresh()
    assert alike.cells.sum() == pytest.approx(1.0)
    assert np.exp(alike.cells @ np.log(LATTICE.rates)) == pytest.approx(rate, rel=0.2)
    assert alike.log_bayes_factor == 0.0, "no page was polled before"


@pytest.mark.parametrize("sites", [SITES, 3000])
def test_polls_one_by_one_teach_like_a_batch(sites: int) -> None:
    rng, one, all_at_once = np.random.default_rng(2), CommonRate(LATTICE, CYCLE), CommonRate(LATTICE, CYCLE)
    gap, changed = rng.exponential(800.0, 50), rng.random(50) < 0.5
    unchanged, known = rng.uniform(0.05, 0.95, 50), rng.random(50) < 0.7
    all_at_once.observe(LATTICE, gap, changed, unchanged, known, sites)
    for i in range(50):
        part = slice(i, i + 1)
        one.observe(LATTICE, gap[part], changed[part], unchanged[part], known[part], sites)
    np.testing.assert_allclose(one.log_posterior, all_at_once.log_posterior, rtol=1e-9, atol=1e-9)
    assert one.log_bayes_factor == pytest.approx(all_at_once.log_bayes_factor)
    assert one.weight == pytest.approx(all_at_once.weight)


def test_however_far_behind_beliefs_can_catch_up() -> None:
    alike, gap = CommonRate(LATTICE, CYCLE), np.full(200, 1000.0)
    everyone = np.ones(200, np.bool_)
    wrong = np.full(200, 0.999)
    alike.observe(LATTICE, gap, everyone, wrong, everyone, SITES)
    assert alike.log_bayes_factor == LOG_PRIOR_ODDS - MAX_BEHIND
    half = np.arange(200) % 2 == 0
    alike.observe(LATTICE, gap, half, np.where(half, 0.1, 0.9), everyone, SITES)
    assert alike.weight == 1.0


def test_the_fewer_sites_the_less_doubt() -> None:
    def weight_with(sites: int) -> float:
        alike = CommonRate(LATTICE, CYCLE)
        nothing = np.zeros(0, np.bool_)
        alike.observe(LATTICE, np.zeros(0), nothing, np.zeros(0), nothing, sites)
        return alike.weight

    assert [weight_with(sites) for sites in (10, SITES, 10_000)] == pytest.approx(
        [1 / (1 + np.exp(0.1 * LOG_PRIOR_ODDS)), 1 / (1 + np.exp(LOG_PRIOR_ODDS)), 1 / (1 + np.exp(LOG_PRIOR_ODDS))]
    )


def test_the_window_slides_under_it() -> None:
    alike, gap = CommonRate(LATTICE, CYCLE), np.full(500, 1000.0)
    changed = np.arange(500) % 3 == 0
    alike.observe(LATTICE, gap, changed, np.full(500, 0.6), changed, 1)
    alike.refresh()
    before = alike.cells.copy()
    alike.move(LATTICE, grid.Lattice(LATTICE.start + 2 * LATTICE.step, LATTICE.step))
    np.testing.assert_allclose(alike.cells[:-2], before[2:], atol=1e-9)
