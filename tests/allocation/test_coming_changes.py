"""The interval of the number of changes to come: its law, and how many pages it holds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.coming_changes import LEVEL, SHAPE, chances_up_to, coming_changes
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create

DAY = 86_400.0
MONTH = 30 * DAY


def held(rates: NDArray[np.float64], weights: NDArray[np.float64], changes: NDArray[np.int64]) -> float:
    """Returns the share of the pages whose number of changes is inside their interval."""
    low, median, high = coming_changes(rates, weights, MONTH)
    assert (low <= median).all()
    assert (median <= high).all()
    return float(((low <= changes) & (changes <= high)).mean())


def test_the_law_is_that_of_a_poisson_number_with_a_gamma_rate() -> None:
    """The negative binomial law, number by number, of 0 to 30 changes where .01, 3 and 40 are expected."""
    numbers, expected = np.arange(31), np.array([0.01, 3.0, 40.0])
    for mean, chances in zip(expected, chances_up_to(numbers, expected), strict=True):
        kept = SHAPE / (SHAPE + mean)
        law = [math.comb(n + SHAPE - 1, n) * kept**SHAPE * (1 - kept) ** n for n in range(31)]
        np.testing.assert_allclose(chances, np.cumsum(law), atol=1e-12)


@pytest.mark.parametrize("expected", [0.02, 0.4, 3.0, 20.0])
def test_no_narrower_interval_holds_as_much(expected: float) -> None:
    low, _, high = (int(ends[0]) for ends in coming_changes(np.array([[expected / MONTH]]), np.ones((1, 1)), MONTH))
    chances = np.concatenate([[0.0], chances_up_to(np.arange(200), np.array([expected]))[0]])
    holding = [b - a for a, b in itertools.combinations(range(201), 2) if chances[b] - chances[a] >= LEVEL]
    assert high - low + 1 == min(holding)


@pytest.mark.parametrize("spread", [0.0, 1 / SHAPE])
def test_known_rates_hold_nine_in_ten_where_they_drift_as_supposed_and_more_where_they_stay(spread: float) -> None:
    """4,000 pages that change 1 to 5,000 times a month; a deviation of .005, whole numbers hold a little more."""
    rng = np.random.default_rng(11)
    rates = np.exp(rng.uniform(0.0, math.log(5_000), 4_000)) / MONTH
    factor = rng.gamma(1 / spread, spread, 4_000) if spread else np.ones(4_000)
    inside = held(rates[:, None], np.ones((4_000, 1)), rng.poisson(rates * MONTH * factor))
    assert LEVEL - 0.025 < inside < LEVEL + 0.04 if spread else inside > 0.97


def test_learned_rates_hold_nine_in_ten_of_pages_that_drift() -> None:
    """300 pages of .1 to 10 changes a day, polled twice a day for a month: `whittle` holds .85 to .96 of the next."""
    pages, polls = 300, 60
    rng = np.random.default_rng(12)
    rates = np.exp(rng.uniform(math.log(0.1), math.log(10.0), pages)) / DAY
    allocator = create("whittle", budget=pages * 2 / DAY, objective="changes", rng=np.random.default_rng(13))
    slots = np.arange(pages)
    allocator.add(slots, np.ones(pages), np.ones(pages))
    gaps = np.full(pages, DAY / 2)
    for poll in range(polls):
        changed = rng.random(pages) < -np.expm1(-rates * gaps)
        allocator.observe(slots, gaps, EvidenceBatch(changed), 1.8e9 + poll * DAY / 2)
    changes = rng.poisson(rates * MONTH * rng.gamma(SHAPE, 1 / SHAPE, pages))
    assert 0.85 < held(*allocator.belief_of(slots), changes) < 0.96


def test_pages_that_change_every_minute_and_hardly_ever_are_bounded() -> None:
    """The ends of the grid of rates: once a minute, and once in five years, believed to the same degree or alone."""
    rates = np.array([[1 / (5 * 365 * DAY), 1 / 60]])
    low, median, high = coming_changes(rates, np.array([[1.0, 0.0], [0.0, 1.0], [0.95, 0.05]]), MONTH)
    assert (low[0], median[0], high[0]) == (0, 0, 0)
    assert 10_000 < low[1] < median[1] < 43_200 < high[1] < 100_000
    assert (low[2], median[2], high[2]) == (0, 0, 0)
