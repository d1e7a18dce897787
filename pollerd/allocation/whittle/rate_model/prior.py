"""The prior over rates: where it starts, and what all sites teach it (empirical Bayes)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.whittle.rate_model.drift import START_ODDS
from pollerd.allocation.whittle.rate_model.grid import SLOWEST_PER_CYCLE, Lattice
from pollerd.allocation.whittle.settings import LearningSettings

_TRACE = 1e-4
_LEAST = 1e-12
"""However far a rate lies from the centre, it is not ruled out."""
_WIDE_SHARE = 0.2
"""How much of the start allows for rates far slower than the cycle."""
_TELLING = 1.0
"""Logarithm of a likelihood, of all quiet sites together, from which on they tell one slow rate from another."""


def start_prior(lattice: Lattice, cycle: float, width: float) -> NDArray[np.float64]:
    """Log-normal around one change per uniform cycle (s), `width` e-folds, float64[CELLS], sums to 1.

    A fifth of it is wider on the slow side, by as much as the window reaches further than the cycle asks for. A cycle
    of seconds says next to nothing of how seldom pages change: one that is silent has to be believed for it.
    """
    x = np.log(lattice.rates * cycle) / width
    wider = x[0] * width / math.log(SLOWEST_PER_CYCLE)
    widths = np.diff(lattice.edges)
    narrow, wide = _normal(x, widths), _normal(np.where(x < 0, x / wider, x), widths)
    return (1.0 - _WIDE_SHARE) * narrow + _WIDE_SHARE * wide


def _normal(x: NDArray[np.float64], widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal masses of cells at x with widths, float64[k] each, which sum to 1."""
    mass = np.maximum(np.exp(-0.5 * x * x), _LEAST) * widths
    return np.asarray(mass / mass.sum())


def summed_posteriors(likelihood: NDArray[np.float32], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Summed posteriors of rows [n, J] under a prior [J], float64[J]."""
    scale = 1.0 / np.maximum(likelihood @ prior.astype(np.float32), np.float32(1e-37))
    return np.asarray(prior * (scale @ likelihood))


def with_trace(prior: NDArray[np.float64], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """The prior with a trace of its start everywhere, so that no rate is ever ruled out."""
    return (1.0 - _TRACE) * prior + _TRACE * start


def learn(
    likelihood: NDArray[np.float32],
    prior: NDArray[np.float64],
    odds: NDArray[np.float64],
    start: NDArray[np.float64],
    settings: LearningSettings,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The prior over rates, float64[CELLS], and the odds of hazards, float64[H], that explain rows [n, H, CELLS] best.

    A few EM steps on the mixing weights. The prior is pulled towards `start`, so that no rate is ever ruled out and one
    that only few sites have keeps its say; the odds towards theirs at the start.
    """
    shape = likelihood.shape[1:]
    rows = likelihood.reshape(len(likelihood), shape[0] * shape[1])
    weight = (settings.prior_pull_share * len(rows) + settings.start_sites) * start
    merged = indistinguishable_slow(likelihood[:, 0])
    for _ in range(settings.em_steps):
        total = summed_posteriors(rows, (odds[:, None] * prior).ravel()).reshape(shape)
        prior, odds = total.sum(0) + weight, total.sum(1) + settings.start_sites * START_ODDS
        prior[:merged] = prior[:merged].sum() / start[:merged].sum() * start[:merged]
        prior, odds = prior / prior.sum(), odds / odds.sum()
    return prior, odds


def indistinguishable_slow(likelihood: NDArray[np.float32]) -> int:
    """How many of the slowest rates all quiet sites together do not tell apart, by rows [n, CELLS]; at least 1.

    Of two rates at which nothing was to be expected yet, the slower one always explains silence a little better. Step
    by step the prior would end on the slowest of all.
    """
    against = np.log(np.maximum(likelihood[:, :1], _LEAST)) - np.log(np.maximum(likelihood, _LEAST))
    distinguished = np.maximum(against, 0.0).sum(0) > _TELLING
    return int(distinguished.argmax()) if distinguished.any() else len(distinguished)


def next_update(observed: int, sites: int) -> int:
    """The count of observations at which to learn next: a quarter more, at least 16, at most as many as sites.

    Geometric while young, so that the early prior is fresh; linear later, so that the cost per poll stays O(CELLS).
    """
    return observed + max(16, min(math.ceil(observed / 4), max(sites, 256)))
