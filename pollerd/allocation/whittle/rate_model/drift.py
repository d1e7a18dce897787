"""Rates drift: what was learned of a site fades, as fast as its own polls say (theory.md 2b.2 and 2b.6).

A site's rate is drawn anew with a hazard that is either slow or fast. Which of the two is believed site by site; how
slow the slow one is, is learned from all: in a still world it is nearly nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.whittle.rate_model.grid import CELLS, Lattice, move_likelihood

FAST_HAZARD = 0.3
"""The fast hazard, chances per uniform cycle."""
START_ODDS = np.array([0.95, 0.05])
"""How likely the slow and the fast are before anything was seen."""
SLOW_HAZARDS = np.array([0.0005, 0.005, 0.02, 0.06])
"""Slow hazards compared, chances per uniform cycle."""
LOG_PRIOR_ODDS = np.array([0.0, 0.0, 3.0, 5.0])
"""Logarithmic odds against each: a static world loses more by a rate held too loosely than a moving one by a rate held
too tightly, and the evidence of a moving one grows quickly."""
SAMPLE_SLOTS = 256
"""They are compared on the sites of the first slots: enough to tell, at a cost that does not grow."""
N_HAZARDS = len(START_ODDS)


def predict(
    mass: NDArray[np.float64],
    target: NDArray[np.float64],
    hazards: NDArray[np.float64],
    cycles: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Belief [k, H, K] over hazards [H] and rates after `cycles` [k]: the rate kept, or drawn from `target` [k, K]."""
    keep = np.exp(-hazards * cycles[:, None])[:, :, None]
    return np.asarray(keep * mass + (1.0 - keep) * mass.sum(2, keepdims=True) * target[:, None])


class HazardMixture:
    """Filters with different slow hazards side by side on a sample of sites, weighted by how well they predict.

    `hazard` per uniform cycle is their mean. `memory` is the number of polls over which old predictions lose their say.
    """

    def __init__(self, memory: float) -> None:
        self._keep = 1.0 - 1.0 / memory
        self.likelihood = np.ones((SAMPLE_SLOTS, len(SLOW_HAZARDS), CELLS), np.float32)
        self.score = np.zeros(len(SLOW_HAZARDS))
        self.learn()

    def forget(self, slots: NDArray[np.int64]) -> None:
        """The slots int64[k] start afresh."""
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
        """Sets `hazard` to the mean under the present weights."""
        odds = self.score - LOG_PRIOR_ODDS
        weights = np.exp(odds - odds.max())
        self.hazard = float(weights @ SLOW_HAZARDS / weights.sum())

    def move(self, prior: NDArray[np.float64], old: Lattice, new: Lattice) -> None:
        """Another window was laid."""
        flat = self.likelihood.reshape(-1, CELLS)
        self.likelihood = move_likelihood(flat, prior, old, new).reshape(self.likelihood.shape)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for storage."""
        return {"hazard_likelihood": self.likelihood, "hazard_score": self.score, "hazard": np.array([self.hazard])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Puts back what `state` gave, flat."""
        self.likelihood = arrays["hazard_likelihood"].reshape(self.likelihood.shape)
        self.score, self.hazard = arrays["hazard_score"], float(arrays["hazard"][0])
