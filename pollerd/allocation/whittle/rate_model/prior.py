"""The prior over rates: its initial form, and learning it from all sites (empirical Bayes)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.whittle.rate_model.drift import START_ODDS
from pollerd.allocation.whittle.rate_model.grid import SLOWEST_PER_CYCLE, Lattice
from pollerd.allocation.whittle.settings import LearningSettings

_TRACE = 1e-4
_LEAST = 1e-12
"""Lower bound of densities far from the centre, so that no rate is ruled out."""
_WIDE_SHARE = 0.2
"""Share of the initial prior that allows for rates far slower than the cycle."""
_TELLING = 1.0
"""Log-likelihood ratio, summed over all quiet sites, from which on slow rates can be told apart."""


def start_prior(lattice: Lattice, cycle: float, width: float) -> NDArray[np.float64]:
    """Returns a log-normal around one change per uniform cycle (s), `width` e-folds, float64[CELLS], sums to 1.

    A fifth of it is wider on the slow side, in proportion to the window's extension beyond the range that depends on
    the cycle. A cycle of seconds says next to nothing about how seldom pages change, and quiet pages must be able to
    get slow rates.
    """
    x = np.log(lattice.rates * cycle) / width
    wider = x[0] * width / math.log(SLOWEST_PER_CYCLE)
    widths = np.diff(lattice.edges)
    narrow, wide = _normal(x, widths), _normal(np.where(x < 0, x / wider, x), widths)
    return (1.0 - _WIDE_SHARE) * narrow + _WIDE_SHARE * wide


def _normal(x: NDArray[np.float64], widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns normal masses of cells at x with widths, float64[k] each; they sum to 1."""
    mass = np.maximum(np.exp(-0.5 * x * x), _LEAST) * widths
    return np.asarray(mass / mass.sum())


def summed_posteriors(likelihood: NDArray[np.float32], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the summed posteriors of rows [n, J] under a prior [J], float64[J]."""
    scale = 1.0 / np.maximum(likelihood @ prior.astype(np.float32), np.float32(1e-37))
    return np.asarray(prior * (scale @ likelihood))


def with_trace(prior: NDArray[np.float64], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the prior mixed with a trace of the initial one, so that no rate is ever ruled out."""
    return (1.0 - _TRACE) * prior + _TRACE * start


def learn(
    likelihood: NDArray[np.float32],
    prior: NDArray[np.float64],
    odds: NDArray[np.float64],
    start: NDArray[np.float64],
    settings: LearningSettings,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the prior over rates, float64[CELLS], and odds of hazards, float64[H], that fit rows [n, H, CELLS] best.

    A few EM steps on the mixing weights. The prior is shrunk towards `start`, so that no rate is ever ruled out and a
    rate of only a few sites keeps some weight; the odds towards their initial values.
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
    """Returns how many of the slowest rates the quiet sites do not tell apart, by rows [n, CELLS]; at least 1.

    Of two rates at which no change was to be expected yet, the slower one always explains quiet polls a little better.
    Step by step the prior would end on the slowest of all.
    """
    against = np.log(np.maximum(likelihood[:, :1], _LEAST)) - np.log(np.maximum(likelihood, _LEAST))
    distinguished = np.maximum(against, 0.0).sum(0) > _TELLING
    return int(distinguished.argmax()) if distinguished.any() else len(distinguished)


def next_update(observed: int, sites: int) -> int:
    """Returns the count of observations at which to learn next: a quarter more, at least 16, at most as many as sites.

    Geometric at first, so that the early prior is fresh; linear later, so that the cost per poll stays O(CELLS).
    """
    return observed + max(16, min(math.ceil(observed / 4), max(sites, 256)))
