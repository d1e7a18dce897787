"""The prior over rates: where it starts, and what all sites teach it (empirical Bayes)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.learning.forgetting import START_ODDS
from pollerd.allocation.learning.grid import rates_from
from pollerd.allocation.learning.settings import LearningSettings

_TRACE = 1e-4


def start_prior(start: float, cycle: float, width: float) -> NDArray[np.float64]:
    """Log-normal around one change per uniform cycle (s), `width` e-folds, over the window at `start`.

    float64[CELLS], sums to 1.
    """
    x = np.log(rates_from(start) * cycle) / width
    w = np.exp(-0.5 * x * x)
    return np.asarray(w / w.sum())


def occupation(likelihood: NDArray[np.float32], prior: NDArray[np.float64]) -> NDArray[np.float64]:
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
    pull = (settings.prior_pull_share * len(rows) + settings.start_sites) * start
    for _ in range(settings.em_steps):
        total = occupation(rows, (odds[:, None] * prior).ravel()).reshape(shape)
        prior, odds = total.sum(0) + pull, total.sum(1) + settings.start_sites * START_ODDS
        prior, odds = prior / prior.sum(), odds / odds.sum()
    return prior, odds


def next_lesson(observed: int, sites: int) -> int:
    """The count of observations at which to learn next: a quarter more, at least 16, at most as many as sites.

    Geometric while young, so that the early prior is fresh; linear later, so that the cost per poll stays O(CELLS).
    """
    return observed + max(16, min(math.ceil(observed / 4), max(sites, 256)))
