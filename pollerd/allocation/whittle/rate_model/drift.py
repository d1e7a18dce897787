"""Drift of rates: the belief about a site fades, as fast as its own polls indicate (theory.md 2b.2 and 2b.6).

A site's rate is redrawn with a hazard that is either slow or fast. Which one is inferred for each site; the size of the
slow one is learned from all sites: in a static world it is nearly 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.whittle.rate_model.grid import CELLS, Lattice, move_likelihood

FAST_HAZARD = 0.3
"""Fast hazard, probability per uniform cycle."""
START_ODDS = np.array([0.95, 0.05])
"""Prior probabilities of the slow and the fast hazard."""
SLOW_HAZARDS = np.array([0.0005, 0.005, 0.02, 0.06])
"""Candidate slow hazards, probability per uniform cycle."""
LOG_PRIOR_ODDS = np.array([0.0, 0.0, 3.0, 5.0])
"""Log prior odds against each.

A static world loses more by too high a hazard than a drifting one by too low a hazard, and evidence of drift
accumulates quickly."""
SAMPLE_SLOTS = 256
"""Slow hazards are compared on the sites of the first slots: sufficient, at bounded cost."""
N_HAZARDS = len(START_ODDS)


def predict(
    mass: NDArray[np.float64],
    target: NDArray[np.float64],
    hazards: NDArray[np.float64],
    cycles: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns the belief [k, H, K] over hazards [H] and rates after cycles [k]: kept, or redrawn from target [k, K]."""
    keep = np.exp(-hazards * cycles[:, None])[:, :, None]
    return np.asarray(keep * mass + (1.0 - keep) * mass.sum(2, keepdims=True) * target[:, None])


class HazardMixture:
    """Filters with different slow hazards on a sample of sites, weighted by their predictive likelihood.

    `hazard` per uniform cycle is their mean. `memory` is the number of polls over which old predictions are discounted.
    """

    def __init__(self, memory: float) -> None:
        self._keep = 1.0 - 1.0 / memory
        self.likelihood = np.ones((SAMPLE_SLOTS, len(SLOW_HAZARDS), CELLS), np.float32)
        self.score = np.zeros(len(SLOW_HAZARDS))
        self.learn()

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Resets slots int64[k]."""
        self.likelihood[slots[slots < SAMPLE_SLOTS]] = 1.0

    def observe(
        self,
        slots: NDArray[np.int64],
        cycles: NDArray[np.float64],
        likelihood: NDArray[np.float64],
        target: NDArray[np.float64],
        prior: NDArray[np.float64],
    ) -> None:
        """Scores and updates every filter: slots int64[k] distinct, cycles [k], likelihood and target [k, K]."""
        rows = np.flatnonzero(slots < SAMPLE_SLOTS)
        if not rows.size:
            return
        at = slots[rows]
        belief = self.likelihood[at] * prior
        belief /= belief.sum(2, keepdims=True)
        belief = predict(belief, target[rows], SLOW_HAZARDS, cycles[rows]) * likelihood[rows, None]
        predicted = belief.sum(2)
        age = self._keep ** np.arange(rows.size - 1, -1, -1)
        self.score = self.score * self._keep**rows.size + age @ np.log(predicted)
        self.score -= self.score.max()
        rescaled = belief / prior
        self.likelihood[at] = rescaled / rescaled.max(2, keepdims=True)

    def learn(self) -> None:
        """Sets `hazard` to the mean under the current weights."""
        odds = self.score - LOG_PRIOR_ODDS
        weights = np.exp(odds - odds.max())
        self.hazard = float(weights @ SLOW_HAZARDS / weights.sum())

    def move(self, prior: NDArray[np.float64], old: Lattice, new: Lattice) -> None:
        """Converts to another window."""
        flat = self.likelihood.reshape(-1, CELLS)
        self.likelihood = move_likelihood(flat, prior, old, new).reshape(self.likelihood.shape)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage."""
        return {"hazard_likelihood": self.likelihood, "hazard_score": self.score, "hazard": np.array([self.hazard])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `state`, flat."""
        self.likelihood = arrays["hazard_likelihood"].reshape(self.likelihood.shape)
        self.score, self.hazard = arrays["hazard_score"], float(arrays["hazard"][0])
