"""DET-KS: as written, all at once, and against every other way to fill the knapsack."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.allocation.periodic import det_ks, water_filling


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 8), st.integers(0, 60), st.booleans())
def test_all_at_once_is_step_by_step(seed: int, n: int, m: int, steps: int, ties: bool) -> None:
    """Gains that rise and fall, with ties or without; more steps than there are included."""
    chance = np.random.default_rng(seed)
    gains = chance.integers(-2, 3, (3, n, m)).astype(float) if ties else chance.normal(size=(3, n, m))
    together = water_filling(gains, np.ones(m), steps)
    for run in range(3):
        np.testing.assert_array_equal(together[run], det_ks(gains[run], steps))
        assert together[run].sum() == min(steps, n * m)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 6))
def test_where_gains_fall_nothing_is_better(seed: int, steps: int) -> None:
    """[B] appendix A, against all ways to share out the steps."""
    gains = -np.sort(-np.random.default_rng(seed).normal(size=(3, 4)), axis=1)
    sums = np.concatenate([np.zeros((3, 1)), np.cumsum(gains, axis=1)], axis=1)
    ways = [way for way in itertools.product(range(5), repeat=3) if sum(way) == steps]
    best = max(sum(sums[i, taken] for i, taken in enumerate(way)) for way in ways)
    taken = det_ks(gains, steps)
    np.testing.assert_allclose(sums[np.arange(3), taken].sum(), best)


def test_steps_of_unequal_width_stop_before_the_first_that_does_not_fit() -> None:
    gains = np.array([[[0.9, 0.5, 0.4], [0.8, 0.7, 0.1]]])
    widths = np.array([1.0, 2.0, 4.0])
    for capacity, taken in ((0.5, [0, 0]), (1.0, [1, 0]), (2.0, [1, 1]), (4.0, [1, 2]), (6.0, [2, 2]), (99.0, [3, 3])):
        np.testing.assert_array_equal(water_filling(gains, widths, capacity)[0], taken)
