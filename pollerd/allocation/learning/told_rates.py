"""What is told of rates: the beliefs on the lattice, refined between its rates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.learning import grid
from pollerd.allocation.learning.belief import Belief

_ROWS_AT_A_TIME = 16_384


def mean_rates(belief: Belief, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean rates (1/s) of slots int64[k], as they were last polled, float64[k]."""
    out = np.empty(len(slots))
    for at in range(0, len(slots), _ROWS_AT_A_TIME):
        some = slots[at : at + _ROWS_AT_A_TIME]
        out[at : at + len(some)] = (belief.posterior(some) * belief.rates).sum(1) * belief.refinement.factor(some)
    return out


def rate_interval(
    belief: Belief, slots: NDArray[np.int64], level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Central credible interval of the rates (1/s) of slots int64[k], (low, high), float64[k] each; 0 < level < 1."""
    low, high = belief.refinement.interval(slots, belief.posterior(slots), level)
    return belief.rates_at(low), belief.rates_at(high)


def fine_posterior(belief: Belief, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rates float64[1, J] (1/s), two for each of the lattice's, and probabilities float64[k, J] of slots int64[k].

    As they were last polled. Mass that belongs between two rates is split so that its mean stays.
    """
    posterior = belief.posterior(slots)
    positions = np.arange(-0.5, grid.CELLS, 0.5)
    halves = 2.0 * belief.refinement.offset[slots].astype(np.float64)
    down = np.minimum(np.floor(halves), 0.0)
    ratio = np.exp(grid.RATIO / 2.0)
    upper = (ratio ** (halves - down) - 1.0) / (ratio - 1.0)
    above = posterior * upper[:, None]
    below = posterior - above
    moved_down = (down < 0)[:, None]
    out = np.zeros((len(slots), len(positions)))
    out[:, 1::2] = np.where(moved_down, above, below)
    out[:, 2::2] = np.where(moved_down, 0.0, above)
    out[:, :-1:2] += np.where(moved_down, below, 0.0)
    return belief.rates_at(positions)[None], out


def change_probability(belief: Belief, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability float64[k] that polls of slots int64[k] find a change, elapsed float64[k] s after the last ones.

    On the common clock as it stood at the last poll of any site.
    """
    gap = belief.clock.gap(elapsed, belief.now)
    seen = -np.expm1(-(gap * belief.refinement.factor(slots))[:, None] * belief.rates)
    return np.asarray((belief.faded_rows(slots, gap) * seen).sum(1))
