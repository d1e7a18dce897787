"""What is told of the rates of much polled sites: between the lattice's rates, and no surer than it may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import amplitude_and_rate, index
from pollerd.allocation.registry import create
from pollerd.allocation.whittle import grid
from pollerd.allocation.whittle.belief import ROW
from pollerd.allocation.whittle.clock import CommonRate
from pollerd.allocation.whittle.grid import likelihood, score
from pollerd.allocation.whittle.refinement import RateRefinement
from pollerd.allocation.whittle.whittle import Whittle
from pollerd.errors import InvalidValueError

N = 60
CYCLE = 60.0
POLLS = 150
LATTICE = grid.lattice_for(CYCLE, N)


def polled(rates: NDArray[np.float64], polls: int, seed: int, allocator: Allocator | None = None) -> Allocator:
    """An allocator that saw so many polls of each of N Poisson pages, once in about a cycle."""
    rng = np.random.default_rng(seed)
    if allocator is None:
        allocator = create("whittle", budget=N / CYCLE, rng=rng)
        allocator.add(np.arange(N), np.ones(N), np.ones(N))
    for _ in range(polls):
        gap = rng.uniform(0.5, 1.5, N) * CYCLE
        allocator.observe(np.arange(N), gap, EvidenceBatch(rng.random(N) < -np.expm1(-rates * gap)), 0.0)
    return allocator


def spread_rates(seed: int) -> NDArray[np.float64]:
    """Rates around one change per cycle, wherever between the lattice's they fall."""
    return np.exp(np.random.default_rng(seed).uniform(-1.5, 0.7, N)) / CYCLE


@pytest.fixture(scope="module")
def worlds() -> list[tuple[NDArray[np.float64], Allocator]]:
    """Rates, and who was taught by 150 polls of each page."""
    return [(spread_rates(seed), polled(spread_rates(seed), POLLS, 100 + seed)) for seed in range(3)]


def test_rates_lie_between_those_of_the_lattice(worlds: list[tuple[NDArray[np.float64], Allocator]]) -> None:
    """150 polls tell a rate to some 12 %, every other page to 8. On the lattice every other page is .15 off."""
    off = np.concatenate([np.log(allocator.rates() / rates) for rates, allocator in worlds])
    assert np.median(np.abs(off)) < 0.115
    assert abs(np.median(off)) < 0.05


def test_the_interval_holds_the_truth_as_often_as_it_says(
    worlds: list[tuple[NDArray[np.float64], Allocator]],
) -> None:
    """Of 180 pages at least 142 (79 %): once in 10^5 if right. Rates of the lattice alone held a quarter."""
    held, width = 0, []
    for rates, allocator in worlds:
        low, high = allocator.rate_interval(np.arange(N))
        held += int(((low <= rates) & (rates <= high)).sum())
        width.append(np.log(high / low).mean())
    assert held >= 142
    assert np.mean(width) < 1.5 * LATTICE.step


@pytest.mark.parametrize("objective", ["changes", "freshness", "interest"])
def test_choices_go_by_the_told_rates(objective: str) -> None:
    """The index of a well known page is that of the rate it is told to have, not of the lattice's nearest."""
    slots, gap, life = np.arange(N), np.full(N, 0.2 * CYCLE), np.full(N, CYCLE)
    allocator = create("whittle", budget=N / CYCLE, objective=objective, rng=np.random.default_rng(0))
    allocator.add(slots, np.ones(N), np.ones(N), life)
    polled(spread_rates(2), POLLS, 17, allocator)
    low, high = allocator.rate_interval(slots)
    known = high / low < 2.5
    assert known.sum() > N / 2

    def index_at(rates: NDArray[np.float64]) -> NDArray[np.float64]:
        amplitude, rate = amplitude_and_rate(objective, rates, np.ones(N), life)
        return np.log(index(gap, amplitude, rate, np.ones(N)))[known]

    told, lattice = allocator.rates(), LATTICE.rates
    nearest = lattice[np.abs(np.log(told[:, None] / lattice)).argmin(1)]
    assert np.median(np.abs(index_at(nearest) - index_at(told))) > 0.08
    more = np.log(allocator.urgency_of(slots, gap, 0.0))[known] - index_at(told)
    assert np.median(np.abs(more - np.median(more))) < 0.02  # under `interest` claims lift all of them alike


def test_polls_are_predicted_by_the_told_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the clock and the one rate for all are held against."""
    slots, gap = np.arange(N), np.full(N, CYCLE)
    allocator = polled(spread_rates(2), POLLS, 18)
    told = 1.0 - allocator.change_probability(slots, gap)
    seen: list[NDArray[np.float64]] = []
    original = CommonRate.observe

    def observe(self: CommonRate, *given: Any) -> bool:
        seen.append(given[3])
        return original(self, *given)

    monkeypatch.setattr(CommonRate, "observe", observe)
    allocator.observe(slots, gap, EvidenceBatch(np.zeros(N, bool)), 0.0)
    np.testing.assert_allclose(np.concatenate(seen), told, rtol=1e-3)


def test_a_slot_used_anew_starts_on_the_lattice() -> None:
    allocator = polled(spread_rates(2), POLLS, 20)
    assert isinstance(allocator, Whittle)
    assert not allocator.belief.group_priors.active, "else each starts from its neighbours' rates"
    new = np.array([3, N])
    allocator.remove(new[:1])
    allocator.add(new, np.ones(2), np.ones(2))
    fresh, other = allocator.rates()[new]
    assert fresh == other


def test_a_rate_that_moves_is_followed() -> None:
    slow, fast = np.full(N, 0.2 / CYCLE), np.full(N, 0.9 / CYCLE)
    allocator = polled(fast, 100, 4, polled(slow, POLLS, 3))
    assert np.abs(np.log(np.median(allocator.rates()) / fast[0])) < 0.1


def test_a_few_polls_say_what_the_lattice_says() -> None:
    allocator = polled(spread_rates(5), 2, 6)
    rates, weights = allocator.belief_of(np.arange(N))
    assert (weights[:, ::2] == 0).mean() > 0.9
    apart = np.diff(np.log(rates[0]))
    dense = 2 * grid.WIDE + 1
    np.testing.assert_allclose(apart[1:dense], LATTICE.wide * LATTICE.step / 2)
    np.testing.assert_allclose(apart[dense:], LATTICE.step / 2)


@pytest.mark.parametrize("polls", [0, 1, 10, 200])
def test_the_fine_belief_has_the_same_means(polls: int) -> None:
    allocator = polled(spread_rates(7), polls, 8)
    rates, weights = allocator.belief_of(np.arange(N))
    np.testing.assert_allclose(weights.sum(1), 1.0)
    assert (weights >= 0).all()
    np.testing.assert_allclose((rates * weights).sum(1), allocator.rates(), rtol=1e-9)
    low, high = allocator.rate_interval(np.arange(N))
    assert ((low < allocator.rates()) & (low < high)).all()


def test_it_outlives_a_window_that_slides() -> None:
    """A budget 30 times as large for a moment moves the window there and back; far tails lose their shape by it."""
    allocator = polled(spread_rates(9), POLLS, 10)
    before = allocator.rates()
    allocator.budget = allocator.budget * 30
    allocator.budget = allocator.budget / 30
    assert np.quantile(np.abs(np.log(allocator.rates() / before)), 0.9) < 0.01


def test_it_is_stored_with_the_site() -> None:
    slots = np.arange(N)
    allocator = polled(spread_rates(11), 100, 12)
    again = create("whittle", budget=N / CYCLE, rng=np.random.default_rng(0))
    again.add(slots, np.ones(N), np.ones(N))
    again.restore(slots, allocator.site_state(slots), allocator.shared_state())
    np.testing.assert_array_equal(again.rates(), allocator.rates())
    np.testing.assert_array_equal(again.rate_interval(slots), allocator.rate_interval(slots))


@pytest.mark.parametrize(
    ("name", "value"),
    [("position", np.nan), ("information", np.inf), ("information", -1.0), ("offset", np.nan), ("offset", -0.75)],
)
def test_damaged_estimates_are_refused(name: str, value: float) -> None:
    slots = np.arange(N)
    allocator = polled(spread_rates(13), 5, 14)
    rows = allocator.site_state(slots).copy().view(ROW).reshape(N)
    rows[name][3] = value
    with pytest.raises(InvalidValueError, match="site_state"):
        allocator.restore(slots, rows.view(np.uint8).reshape(N, ROW.itemsize), allocator.shared_state())


def test_all_kinds_of_evidence_refine() -> None:
    """Ages of last changes tell more than whether there was one: after as many polls the interval is narrower."""
    rng = np.random.default_rng(15)
    rates = spread_rates(16)
    widths = []
    for dated in (False, True):
        allocator = create("whittle", budget=N / CYCLE, rng=rng)
        allocator.add(np.arange(N), np.ones(N), np.ones(N))
        for _ in range(40):
            gap = rng.uniform(0.5, 1.5, N) * CYCLE
            age = rng.exponential(1.0 / rates)
            changed = age < gap
            told = np.where(changed & dated, age, np.nan)
            allocator.observe(np.arange(N), gap, EvidenceBatch(changed, age=told), 0.0)
        low, high = allocator.rate_interval(np.arange(N))
        widths.append(np.log(high / low).mean())
        assert ((low <= rates) & (rates <= high)).mean() > 0.75
    assert widths[1] < widths[0]


@pytest.mark.parametrize(
    ("elapsed", "changed", "age", "count"),
    [
        (300.0, False, np.nan, -1),
        (300.0, True, np.nan, -1),
        (300.0, True, 100.0, -1),
        (300.0, True, 1.0, -1),
        (300.0, True, np.nan, 5),
        (300.0, False, np.nan, 0),
        (np.inf, False, 100.0, -1),
        (np.inf, True, 100.0, -1),
    ],
)
def test_the_score_is_the_derivative_of_the_log_likelihood(
    elapsed: float, changed: bool, age: float, count: int
) -> None:
    evidence = EvidenceBatch(np.array([changed]), np.array([age]), np.array([count]))
    step, gap = 1e-5, np.array([elapsed if np.isfinite(elapsed) else 0.0])
    for rate in (1e-6, 1e-3, 3e-2):
        around = rate * np.exp([-step, step])
        low, high = np.log(likelihood(around, np.array([elapsed]), evidence))[0]
        slope, _ = score(np.array([rate]), gap, evidence.found, evidence)
        assert slope[0] == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("z", [0.01, 0.5, 3.0])
def test_the_information_is_what_is_to_be_expected_of_the_slopes(z: float) -> None:
    """Of a poll that tells whether it changed: the mean square of the slope, whose mean is 0."""
    chance, slopes = -np.expm1(-z), []
    for changed in (False, True):
        evidence = EvidenceBatch(np.array([changed]))
        slope, information = score(np.array([z]), np.array([1.0]), np.array([changed]), evidence)
        slopes.append(float(slope[0]))
    quiet, found = slopes
    assert (1 - chance) * quiet + chance * found == pytest.approx(0.0, abs=1e-9)
    assert (1 - chance) * quiet**2 + chance * found**2 == pytest.approx(information[0])


def test_what_lies_far_away_belongs_to_the_interval() -> None:
    """A tenth of the belief eight cells up, a page that may have become active: the 90 % interval reaches there."""
    refinement = RateRefinement()
    refinement.grow(2)
    slots = np.arange(2)
    refinement.put(slots, np.full(2, 10.2), np.full(2, 60.0), np.full(2, 0.2))
    posterior = np.zeros((2, grid.CELLS))
    posterior[:, 10] = 0.97, 0.9
    posterior[:, 18] = 0.03, 0.1
    low, high = refinement.interval(slots, posterior, 0.9, grid.Lattice(-8.0, 0.6))
    assert (np.abs(low - 10) < 0.5).all()
    assert 10.2 < high[0] < 11
    assert 17.5 < high[1] < 19
