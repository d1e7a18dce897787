"""Rate estimates from the beliefs on the lattice, refined between its rates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.whittle.rate_model.belief import Belief

_ROWS_AT_A_TIME = 16_384
_FEW_CHANGES, _MANY_CHANGES = 0.01, 40.0
"""Expected changes below which two terms of the series suffice, and above which a change is certain."""


def mean_rates(belief: Belief, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns mean rates (1/s) of slots int64[k], as of their last polls, float64[k]."""
    out = np.empty(len(slots))
    for at in range(0, len(slots), _ROWS_AT_A_TIME):
        some = slots[at : at + _ROWS_AT_A_TIME]
        out[at : at + len(some)] = (belief.posterior(some) * belief.rates).sum(1) * belief.factor(some)
    return out


def rate_interval(
    belief: Belief, slots: NDArray[np.int64], level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns central credible intervals of rates (1/s) of slots int64[k], (low, high), float64[k]; 0 < level < 1."""
    low, high = belief.refinement.interval(slots, belief.posterior(slots), level, belief.lattice)
    return belief.lattice.at(low), belief.lattice.at(high)


def fine_posterior(belief: Belief, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns rates float64[1, J] (1/s), the lattice's and midpoints, and posteriors of slots int64[k], float64[k, J].

    As of their last polls. Mass between two rates is split so that its mean is preserved.
    """
    posterior, lattice = belief.posterior(slots), belief.lattice
    places = np.sort(np.r_[lattice.places, lattice.edges])
    cells, edges = lattice.at(lattice.places), lattice.at(lattice.edges)
    by = belief.factor(slots)[:, None]
    up, down = (by - 1.0) / (edges[1:] / cells - 1.0), (1.0 - by) / (1.0 - edges[:-1] / cells)
    above, below = posterior * np.clip(up, 0.0, 1.0), posterior * np.clip(down, 0.0, 1.0)
    out = np.zeros((len(slots), len(places)))
    out[:, 1::2] = posterior - above - below
    out[:, 2::2] = above
    out[:, :-1:2] += below
    return lattice.at(places)[None], out


def change_probability(belief: Belief, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the probability float64[k] that polls of slots int64[k] find a change, after elapsed float64[k] s.

    On the activity clock as of the last poll of any site.
    """
    gap = belief.clock.gap(elapsed, belief.now)
    seen = -np.expm1(-(gap * belief.factor(slots))[:, None] * belief.rates)
    return np.asarray((belief.predicted_rows(slots, gap) * seen).sum(1))


def change_probabilities(belief: Belief, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `change_probability` of slots int64[k] after m gaps each, elapsed float64[k, m] s: float64[k, m].

    Reads the belief of a slot once for all its gaps, which is most of the work.
    """
    gap = belief.clock.gap(elapsed.ravel(), belief.now).reshape(elapsed.shape)
    expected = (gap * belief.factor(slots)[:, None]).astype(np.float32)[:, :, None] * belief.rates.astype(np.float32)
    return belief.predicted_sums(slots, gap, _chance_of_any(expected))


def _chance_of_any(expected: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns 1 - exp(-expected), any shape, to a part in 10,000, in a fraction of the time of `expm1`."""
    few = expected * (1.0 - 0.5 * expected)
    return np.where(expected < _FEW_CHANGES, few, 1.0 - np.exp(-np.minimum(expected, _MANY_CHANGES)))
