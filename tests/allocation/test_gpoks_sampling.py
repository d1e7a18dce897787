"""Functions drawn by flights between walls have the law of rejection, where rejection finds any."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.gpoks.regression import (
    CONSTRAINED,
    VARIANTS,
    GaussianBelief,
    Kernel,
    believe,
    draw_within,
    in_flight,
    index_set,
    value_functions,
)

DRAWS = 2000
ALARM = 1e-5
"""Chance that one comparison alarms although the laws are the same; all of a test's are named beside it."""


def belief(polls: int, p: float = 0.6, length: float = 1.0, points: int = 33, seed: int = 1) -> GaussianBelief:
    """After polls at amounts around the middle."""
    chance, at = np.random.default_rng(seed), np.linspace(0.0, 1.0, points)
    point = np.clip(np.rint(chance.normal(points / 2, points / 12, polls)), 1, points - 1).astype(int)
    counts, sums = np.zeros((2, 1, points))
    np.add.at(counts[0], point, 1.0)
    np.add.at(sums[0], point, chance.random(polls) < 1 - (1 - p) ** (1 / at[point]))
    return believe(index_set(at, Kernel(length)), counts, sums)


def rejected(of: GaussianBelief, optimistic: bool, falling: bool, rng: np.random.Generator) -> NDArray[np.float64]:
    """DRAWS functions, by the definition ([B] (6.1), (6.2))."""
    found: list[NDArray[np.float64]] = []
    while sum(map(len, found)) < DRAWS:
        functions = of.mean[0] + rng.standard_normal((20_000, of.root.shape[2])) @ of.root[0].T
        good = np.ones(len(functions), bool)
        if optimistic:
            good &= (functions >= of.mean[0]).all(1)
        if falling:
            good &= (np.diff(functions, axis=1) <= 0).all(1)
        found.append(functions[good])
    return np.concatenate(found)[:DRAWS]


def many(of: GaussianBelief, k: int) -> GaussianBelief:
    return GaussianBelief(np.repeat(of.mean, k, axis=0), np.repeat(of.root, k, axis=0))


def distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Kolmogorov and Smirnov's, of two samples."""
    everything = np.concatenate([a, b])
    below = [np.searchsorted(np.sort(one), everything, side="right") / len(one) for one in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


LIMIT = np.sqrt(-np.log(ALARM / 2) / 2) * np.sqrt(2 / DRAWS)
"""The distance that two samples of DRAWS of one law exceed with probability ALARM."""


@pytest.mark.parametrize(("polls", "length"), [(0, 1.0), (4, 1.0), (150, 1.0), (10, 0.6)])
@pytest.mark.parametrize("variant", CONSTRAINED)
def test_flights_have_the_law_of_rejection(variant: str, polls: int, length: float) -> None:
    """Six comparisons in each of twelve cases: 72 in all, false alarm below 0.1 %."""
    of = belief(polls, length=length)
    by_rejection = rejected(of, *CONSTRAINED[variant], np.random.default_rng(2))
    by_flight = in_flight(many(of, DRAWS), *CONSTRAINED[variant], np.random.default_rng(3))
    marks: tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], ...] = (
        lambda f: f[:, 0],
        lambda f: f[:, 16],
        lambda f: f[:, 32],
        lambda f: f[:, 0] - f[:, 32],
        lambda f: np.diff(f, axis=1).max(1),
        lambda f: (f - of.mean).min(1),
    )
    for mark in marks:
        assert distance(mark(by_rejection), mark(by_flight)) < LIMIT


def test_flights_do_not_hang_on_where_they_start() -> None:
    """A quadrant in the plane, entered far out and near its tip; four comparisons, false alarm 4e-5."""
    slopes, offsets = np.array([[[1.0, 0.0], [-0.95, 0.3]]]), np.array([[-0.5, 0.3]])
    ends = []
    for seed, start in enumerate(([0.51, 0.7], [20.0, 90.0])):
        walls = np.repeat(slopes, DRAWS, axis=0), np.repeat(offsets, DRAWS, axis=0)
        ends.append(draw_within(*walls, np.repeat([start], DRAWS, axis=0), np.random.default_rng(seed)))
        assert ((walls[0] @ ends[-1][..., None])[..., 0] + walls[1] > -1e-9).all()
    z = np.random.default_rng(9).standard_normal((2_000_000, 2))
    z = z[((z @ slopes[0].T) + offsets[0] >= 0).all(1)][:DRAWS]
    assert len(z) == DRAWS
    for end in ends:
        assert distance(end[:, 0], z[:, 0]) < LIMIT
        assert distance(end[:, 1], z[:, 1]) < LIMIT


def test_no_half_space_in_the_way_leaves_a_normal_vector() -> None:
    """One comparison with exact normal draws, false alarm 1e-5."""
    slopes, offsets = np.ones((DRAWS, 1, 1)), np.full((DRAWS, 1), 100.0)
    z = draw_within(slopes, offsets, np.zeros((DRAWS, 1)), np.random.default_rng(4))
    assert distance(z[:, 0], np.random.default_rng(5).standard_normal(DRAWS)) < LIMIT


def test_a_start_outside_is_refused() -> None:
    with pytest.raises(ArithmeticError, match="1 of 1 starts"):
        draw_within(np.ones((1, 1, 1)), -np.ones((1, 1)), np.zeros((1, 1)), np.random.default_rng(0))


@pytest.mark.parametrize("polls", [0, 1, 30, 10_000])
def test_functions_meet_their_conditions(polls: int) -> None:
    """However much is known, and though the mean itself may rise."""
    of, rng = many(belief(polls, points=101), 200), np.random.default_rng(6)
    for variant, (optimistic, falling) in CONSTRAINED.items():
        functions = value_functions(of, variant, rng)
        assert functions.shape == (200, 101)
        if optimistic:
            assert (functions - of.mean).min() >= -1e-9
        if falling:
            assert np.diff(functions, axis=1).max() <= 1e-9


def test_functions_made_without_draws() -> None:
    of, rng = belief(20), np.random.default_rng(7)
    np.testing.assert_array_equal(value_functions(of, "gpr", rng), of.mean)
    np.testing.assert_allclose(value_functions(of, "ucb", rng), of.mean + 2 * of.deviation)
    assert (value_functions(of, "ips-ots", rng) >= of.mean).all()


@pytest.mark.parametrize("variant", ["ts", "ips"])
def test_draws_have_the_beliefs_mean_and_deviation(variant: str) -> None:
    """At 33 points each, six standard errors: false alarm below 1e-6."""
    of = belief(20)
    drawn = value_functions(many(of, DRAWS), variant, np.random.default_rng(8))
    error = of.deviation[0] / np.sqrt(DRAWS)
    assert (np.abs(drawn.mean(0) - of.mean[0]) < 6 * error).all()
    assert (np.abs(drawn.std(0) - of.deviation[0]) < 6 * error / np.sqrt(2)).all()
    smooth = np.abs(np.diff(drawn, axis=1)).mean() < 0.1 * of.deviation.mean()
    assert smooth == (variant == "ts")


def test_every_variant_is_made() -> None:
    of, rng = many(belief(5), 3), np.random.default_rng(0)
    assert all(value_functions(of, variant, rng).shape == (3, 33) for variant in VARIANTS)
