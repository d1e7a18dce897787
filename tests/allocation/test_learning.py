"""Likelihoods, posterior, prior, forgetting: against closed forms and fine grids."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import g
from pollerd.allocation.registry import create
from pollerd.allocation.whittle import grid
from pollerd.allocation.whittle.belief import Belief
from pollerd.allocation.whittle.clock import SLOW_HAZARDS, START_ODDS
from pollerd.allocation.whittle.grid import likelihood
from pollerd.allocation.whittle.index import Exploration, mean_rates
from pollerd.allocation.whittle.priors import LearningSettings, learn, next_update, start_prior
from pollerd.allocation.whittle.whittle import Whittle
from pollerd.errors import InvalidValueError

RATES = np.geomspace(1e-8, 1e1, 40)
HALF_LIFE = 3000.0


def one(changed: bool, age: float = np.nan, count: int = -1) -> EvidenceBatch:
    return EvidenceBatch(np.array([changed]), np.array([age]), np.array([count]))


def scaled(values: np.ndarray) -> np.ndarray:
    return np.asarray(values / values.max())


@pytest.mark.parametrize("tau", [1e-3, 1.0, 600.0, 1e7])
def test_likelihoods_are_the_closed_forms(tau: float) -> None:
    m, gap = RATES * tau, np.array([tau])
    cases = [
        (one(False), np.exp(-m)),
        (one(True), -np.expm1(-m)),
        (one(True, age=tau / 2), RATES * np.exp(-m / 2)),
        (one(True, count=1), -np.expm1(-m) / (2 + m)),
        (one(True, count=5), -np.expm1(-m) * (1 + m) / ((5 + m) * (6 + m))),
        (one(True, count=0), np.exp(-m)),
        (one(False, age=tau * 9), np.exp(-m)),
        (one(True, age=tau * 9), RATES * np.exp(-m)),
    ]
    for evidence, exact in cases:
        np.testing.assert_allclose(likelihood(RATES, gap, evidence)[0], scaled(exact), rtol=1e-9, atol=1e-200)


def test_first_polls_teach_only_when_dated() -> None:
    forever = np.array([np.inf])
    np.testing.assert_array_equal(likelihood(RATES, forever, one(False))[0], 1.0)
    np.testing.assert_array_equal(likelihood(RATES, forever, one(True, count=7))[0], 1.0)
    dated = likelihood(RATES, forever, one(False, age=3600.0))[0]
    np.testing.assert_allclose(dated, scaled(RATES * np.exp(-RATES * 3600)), rtol=1e-9, atol=1e-200)


def test_a_count_of_k_speaks_with_a_bounded_factor() -> None:
    gap = np.array([600.0])
    for k in (2, 10, 1000):
        more = likelihood(RATES, gap, one(True, count=k))[0] / likelihood(RATES, gap, one(True))[0]
        assert 1 < more.max() / more[0] <= k * (k + 1) / 2


def test_a_burst_does_not_drive_the_rate_to_the_end_of_the_grid() -> None:
    allocator = create("whittle", budget=0.01, rng=np.random.default_rng(0))
    allocator.add(np.arange(2), np.ones(2), np.ones(2))
    for i in range(40):
        burst = i % 10 == 4
        evidence = EvidenceBatch(np.array([burst]), count=np.array([200 if burst else 0]))
        allocator.observe(np.array([0]), np.array([200.0]), evidence, 1e9 + 200 * i)
    # four bursts in 8,000 s
    assert 5e-5 < allocator.rates()[0] < 5e-3


def test_a_count_outweighs_an_age_and_an_age_a_flag() -> None:
    gap = np.array([100.0])
    np.testing.assert_array_equal(
        likelihood(RATES, gap, one(False, age=1.0, count=4)), likelihood(RATES, gap, one(True, count=4))
    )
    assert (likelihood(RATES, gap, one(True, age=30.0)) != likelihood(RATES, gap, one(True))).any()


def taught(sites: int) -> Belief:
    """By one poll of each of so many sites; no lesson has followed yet."""
    belief, rng = Belief(1000.0, LearningSettings()), np.random.default_rng(3)
    belief.grow(sites + 5)
    belief.forget(np.arange(sites + 5))
    changed = EvidenceBatch(rng.random(sites) < 0.4, np.full(sites, np.nan), np.full(sites, -1))
    with pytest.MonkeyPatch.context() as held_back:
        held_back.setattr(belief, "update_priors", lambda: None)
        belief.observe(np.arange(sites), rng.exponential(900.0, sites), changed, 0.0, 10**9)
    return belief


def test_a_lesson_reaches_all_sites() -> None:
    belief, slots = taught(40), np.arange(45)
    before = mean_rates(belief, slots)
    belief.update_priors()
    np.testing.assert_allclose(mean_rates(belief, slots), belief.posterior(slots) @ belief.rates, rtol=1e-5)
    assert (mean_rates(belief, slots) != before).all()
    gap = np.full(3, 500.0)
    np.testing.assert_array_equal(
        belief.predicted_rows(slice(0, 3), gap), belief.predicted_rows(slots, np.full(45, 500.0))[:3]
    )


def test_of_very_many_sites_some_teach_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    everyone, some = taught(400), taught(400)
    everyone.update_priors()
    monkeypatch.setattr("pollerd.allocation.whittle.belief.MAX_TRAINING_SITES", 150)
    some.update_priors()
    rows = some.likelihood[np.arange(0, 400, 3)].astype(np.float32)
    usual = LearningSettings()
    start = start_prior(some.lattice, 1000.0, usual.start_width_efolds)
    np.testing.assert_array_equal(some.prior, learn(rows, start, START_ODDS, start, usual)[0])
    assert np.abs(some.prior - everyone.prior).sum() < 0.2


def test_posterior_is_exact_bayes() -> None:
    """Against the filter over hazards and rates written out in double precision; rows are kept in half precision."""
    belief = Belief(1000.0, LearningSettings())
    belief.grow(3)
    exact = START_ODDS[:, None] * belief.prior
    for tau, changed in ((500.0, True), (200.0, False), (4000.0, True), (30.0, False)):
        belief.observe(np.array([1]), np.array([tau]), one(changed), 0.0, 3)
        keep = np.exp(-belief.hazards * tau / 1000.0)[:, None]
        exact = keep * exact + (1 - keep) * exact.sum(1, keepdims=True) * belief.population
        exact *= -np.expm1(-belief.rates * tau) if changed else np.exp(-belief.rates * tau)
        exact /= exact.sum()
    np.testing.assert_allclose(belief.posterior(np.array([1]))[0], exact.sum(0), rtol=3e-3, atol=1e-6)
    assert mean_rates(belief, np.array([1]))[0] == pytest.approx(exact.sum(0) @ belief.rates, rel=2e-3)
    np.testing.assert_allclose(belief.posterior(np.array([0]))[0], belief.prior, rtol=1e-5)


@pytest.mark.parametrize("weight", [0.3, 1.0])
@pytest.mark.parametrize("objective", ["changes", "freshness", "interest"])
def test_integrated_index_matches_direct_summation(
    monkeypatch: pytest.MonkeyPatch, objective: str, weight: float
) -> None:
    monkeypatch.setattr(Exploration, "observe", lambda *_: False)  # the price of a poll stays 0, so nobody has claims
    allocator = create("whittle", budget=0.01, objective=objective, rng=np.random.default_rng(0))
    n = 30
    allocator.add(np.arange(n), np.linspace(0.5, 2, n), np.linspace(1, 3, n), np.full(n, HALF_LIFE))
    rng = np.random.default_rng(1)
    for _ in range(20):
        allocator.observe(np.arange(n), rng.uniform(10, 1e4, n), EvidenceBatch(rng.random(n) < 0.4), 0.0)
    assert isinstance(allocator, Whittle)
    belief = allocator.belief
    belief.refinement.offset[:n] = rng.uniform(-0.5, 0.5, n)
    belief.common_rate.weight = weight
    gap = rng.uniform(1, 1e5, n)
    keep = np.exp(-belief.hazards * gap[:, None] / belief.cycle)[:, :, None]
    joint = belief.joint(np.arange(n))
    rows = (keep * joint + (1 - keep) * joint.sum(2, keepdims=True) * belief.population).sum(1)
    refined = belief.rates * np.exp(belief.lattice.step * belief.refinement.offset[:n, None].astype(float))

    def mean(value: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Of both hypotheses: refined rates page by page, and the lattice's for all alike."""
        page_by_page, all_alike = rows * value(refined), belief.common_rate.cells * value(belief.rates)
        return np.asarray(weight * page_by_page.sum(1) + (1 - weight) * all_alike.sum(1))

    if objective == "changes":
        direct = g(10 * np.expm1(mean(lambda rates: np.log1p(rates * gap[:, None] / 10))))
    elif objective == "freshness":
        direct = mean(lambda rates: g(rates * gap[:, None]) / rates)
    else:
        decay = np.log(2) / HALF_LIFE
        direct = mean(lambda rates: np.broadcast_to(rates, (n, len(belief.rates)))) / decay * g(decay * gap)
    direct *= np.linspace(0.5, 2, n) / np.linspace(1, 3, n)
    np.testing.assert_allclose(allocator.urgency(gap, 0.0), direct, rtol=2e-3)


@settings(max_examples=30, deadline=None)
@given(st.integers(-30, 30), st.integers(0, 2**32 - 1))
def test_a_window_laid_some_cells_further_keeps_probability(by: int, seed: int) -> None:
    rng, old = np.random.default_rng(seed), grid.Lattice(-8.0, 0.7)
    new = grid.Lattice(old.start + by * old.step, old.step)
    mass = rng.dirichlet(np.ones(grid.CELLS), 5)
    moved = grid.move_mass(mass, old, new)
    np.testing.assert_allclose(moved.sum(1), 1, rtol=1e-9)
    if abs(by) < grid.CELLS:
        inner = slice(max(by, 0) + 1, grid.CELLS + min(by, 0) - 1)
        there = slice(inner.start - by, inner.stop - by)
        np.testing.assert_array_equal(moved[:, there], mass[:, inner])
        rows = rng.random((5, grid.CELLS)).astype(np.float32)
        kept = grid.move_likelihood(rows, mass[0], old, new)
        np.testing.assert_allclose(kept[:, there], rows[:, inner], rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.floats(-12, -4), st.floats(0.5, 1.1), st.integers(0, 2**32 - 1))
def test_a_window_with_another_step_keeps_mass_and_mean(start: float, step: float, seed: int) -> None:
    """Where it holds all of the old one: the mean is that of the logarithm of the rate."""
    rng, old = np.random.default_rng(seed), grid.Lattice(0.0, 0.3)
    new = grid.Lattice(start, max(step, (0.3 * grid.CELLS - start) / (grid.CELLS - 1)))
    mass = rng.dirichlet(np.ones(grid.CELLS), 5)
    moved = grid.move_mass(mass, old, new)
    np.testing.assert_allclose(moved.sum(1), 1, rtol=1e-9)
    np.testing.assert_allclose(moved @ np.log(new.rates), mass @ np.log(old.rates), atol=2e-4)


@pytest.mark.parametrize("cycle", [1e-3, 10.0, 512.0, 86_400.0, 1e7])
@pytest.mark.parametrize("sites", [1, 50, 10_000_000])
def test_every_window_holds_a_change_a_minute_and_one_in_five_years(cycle: float, sites: int) -> None:
    """And what the cycle asks for: the sites' rates from a 500th of one change a cycle, to four a poll or 2,000."""
    rates = grid.lattice_for(cycle, sites).rates
    assert rates[0] <= min(1 / (5 * 365.25 * 86_400), 1 / 500 / cycle) * (1 + 1e-9)
    assert rates[-1] >= max(1 / 60, min(4 * sites, 2000) / cycle) * (1 - 1e-9)
    assert len(rates) == 24


def test_a_new_budget_keeps_what_is_believed() -> None:
    allocator = create("whittle", budget=1.0, rng=np.random.default_rng(0))
    n = 100
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    truth = np.geomspace(1e-3, 1e-2, n)
    rng = np.random.default_rng(2)
    for _ in range(150):
        allocator.observe(np.arange(n), np.full(n, 100.0), EvidenceBatch(rng.random(n) < -np.expm1(-truth * 100)), 0.0)
    before = allocator.rates()
    allocator.budget = 30.0
    np.testing.assert_allclose(allocator.rates(), before, rtol=0.5)
    allocator.budget = 1.0
    np.testing.assert_allclose(allocator.rates(), before, rtol=0.5)


def test_a_static_world_is_learned() -> None:
    """Coverage of the 90 % interval over 200 sites; it fails for fewer than 150: below 1 in 10^6 seeds if right."""
    rng = np.random.default_rng(5)
    n = 200
    allocator = create("whittle", budget=1.0, rng=rng)
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    truth = np.exp(rng.normal(np.log(1 / n), 1.5, n))
    for _ in range(60):
        gap = rng.uniform(50, 1000, n)
        allocator.observe(np.arange(n), gap, EvidenceBatch(rng.random(n) < -np.expm1(-truth * gap)), 0.0)
    low, high = allocator.rate_interval(np.arange(n))
    assert ((low <= truth) & (truth <= high)).sum() >= 150
    p = allocator.change_probability(np.arange(n), np.full(n, 300.0))
    assert np.corrcoef(p, -np.expm1(-truth * 300))[0, 1] > 0.9
    with pytest.raises(InvalidValueError):
        allocator.rate_interval(np.arange(2), level=1.0)


def test_batches_teach_like_single_polls() -> None:
    one_by_one, batched = (create("whittle", budget=1.0, rng=np.random.default_rng(0)) for _ in range(2))
    n = 90
    rng = np.random.default_rng(3)
    for allocator in (one_by_one, batched):
        allocator.add(np.arange(n), np.ones(n), np.ones(n))
    for _ in range(12):
        slots, gap, changed = rng.permutation(n), rng.uniform(1, 500, n), rng.random(n) < 0.3
        batched.observe(slots, gap, EvidenceBatch(changed), 0.0)
        for i in range(n):
            row = slice(i, i + 1)
            one_by_one.observe(slots[row], gap[row], EvidenceBatch(changed[row]), 0.0)
    np.testing.assert_allclose(one_by_one.rates(), batched.rates(), rtol=1e-4)


def test_the_prior_is_learned_from_other_sites() -> None:
    rng = np.random.default_rng(4)
    allocator = create("whittle", budget=1.0, rng=rng)
    n = 300
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    untaught = allocator.rates()[n - 1]
    seen = np.arange(n - 10)
    for _ in range(20):
        gap = np.full(len(seen), 300.0)
        allocator.observe(seen, gap, EvidenceBatch(rng.random(len(seen)) < -np.expm1(-1e-5 * gap)), 0.0)
    assert allocator.rates()[n - 1] < untaught / 3


def test_prior_learning_finds_a_mixture() -> None:
    lattice = grid.Lattice(np.log(1 / 500 / 1000.0), 0.6)
    rates, prior = lattice.rates, start_prior(lattice, 1000.0, 2.0)
    rng = np.random.default_rng(6)
    truth = rng.choice(rates[[6, 14]], 2000)
    rows = np.ones((2000, 2, grid.CELLS), np.float32)
    for tau in np.geomspace(30, 3e5, 14):
        changed = rng.random(2000) < -np.expm1(-truth * tau)
        p = np.exp(-rates * tau)
        rows *= np.where(changed[:, None], 1 - p, p).astype(np.float32)[:, None]
    got, _ = learn(
        rows, prior, START_ODDS, prior, LearningSettings(em_steps=60, prior_pull_share=0.001, start_sites=1.0)
    )
    assert got.sum() == pytest.approx(1)
    assert got[4:9].sum() == pytest.approx(0.5, abs=0.07)
    assert got[12:17].sum() == pytest.approx(0.5, abs=0.07)


def test_hazards_follow_the_world() -> None:
    """Static rates end with less forgetting than rates that are drawn anew every five cycles."""
    ends = []
    for moving in (False, True):
        rng = np.random.default_rng(8)
        n = 100
        allocator = create("whittle", budget=1.0, rng=rng)
        allocator.add(np.arange(n), np.ones(n), np.ones(n))
        truth = rng.lognormal(np.log(1 / n), 2, n)
        for i in range(60):
            if moving and i % 5 == 4:
                truth = rng.permutation(truth)
            gap = np.full(n, float(n))
            allocator.observe(np.arange(n), gap, EvidenceBatch(rng.random(n) < -np.expm1(-truth * gap)), 0.0)
        assert isinstance(allocator, Whittle)
        ends.append(allocator.belief)
    still, restless = ends
    assert still.odds[0] > 0.7
    assert still.hazards[0] < SLOW_HAZARDS[1]
    assert restless.odds[1] > 0.5 or restless.hazards[0] > SLOW_HAZARDS[1]


def test_lessons_come_at_growing_counts() -> None:
    counts, at = [], 0
    while at < 10**6:
        at = next_update(at, 1000)
        counts.append(at)
    assert np.diff(counts).max() == 1000
    assert np.diff(counts).min() >= 16


def test_no_site_waits_longer_than_the_bound() -> None:
    allocator = create("whittle", budget=1.0, rng=np.random.default_rng(0), starvation_cycles=3.0)
    n = 20
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    last, now, longest = np.zeros(n), 0.0, 0.0
    for _ in range(1500):
        now += 1.0
        slot = allocator.select(now - last, now, np.ones(n, bool), 1)
        longest = max(longest, now - last[slot[0]])
        allocator.observe(slot, now - last[slot], EvidenceBatch(slot == 0), now)
        last[slot] = now
    assert longest <= 3 * n + n


def test_settings_name_what_is_wrong() -> None:
    with pytest.raises(InvalidValueError, match="start_share"):
        create("whittle", budget=1.0, rng=np.random.default_rng(0), start_share=1.5)
    with pytest.raises(InvalidValueError, match="em_steps"):
        create("whittle", budget=1.0, rng=np.random.default_rng(0), em_steps=0)
