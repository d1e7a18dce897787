"""Rates drift: what was learned of a site fades, and how fast is learned too (theory.md 2b.2 and 2b.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.learning.grid import CELLS, slide

HAZARDS = np.array([0.005, 0.02, 0.06, 0.15])
"""Chances per uniform cycle that a site's rate is drawn anew."""
DOUBT = np.array([0.0, 3.0, 5.0, 8.0])
"""Logarithmic odds against each hazard: a static world loses more by a rate held too loosely than a moving one by a
rate held too tightly, and the evidence of a moving one grows quickly."""
SAMPLE_SLOTS = 256
"""The hazards are compared on the sites of the first slots: enough to tell, at a cost that does not grow."""


def faded(
    posterior: NDArray[np.float64],
    target: NDArray[np.float64],
    hazard: NDArray[np.float64] | float,
    cycles: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Belief [..., k, K] after `cycles` [k, 1]: kept with chance e^{-hazard · cycles}, else drawn from `target`."""
    keep = np.exp(-hazard * cycles)
    return keep * posterior + (1.0 - keep) * target


class HazardBank:
    """Filters with different hazards side by side on a sample of sites, weighted by how well they predict.

    `memory` is the number of observations over which old predictions lose their say.
    """

    def __init__(self, memory: float) -> None:
        self._keep = 1.0 - 1.0 / memory
        self.likelihood = np.ones((len(HAZARDS), SAMPLE_SLOTS, CELLS), np.float32)
        self.score = np.zeros(len(HAZARDS))
        self.learn()

    def forget(self, slots: NDArray[np.int64]) -> None:
        """The slots int64[k] start afresh."""
        self.likelihood[:, slots[slots < SAMPLE_SLOTS]] = 1.0

    def observe(
        self,
        slots: NDArray[np.int64],
        cycles: NDArray[np.float64],
        likelihood: NDArray[np.float64],
        target: NDArray[np.float64],
        prior: NDArray[np.float64],
    ) -> None:
        """Scores and updates every filter: slots int64[k] distinct, cycles float64[k, 1], the rest as in `faded`."""
        rows = np.flatnonzero(slots < SAMPLE_SLOTS)
        if not rows.size:
            return
        if rows.size < slots.size:
            cycles, likelihood, target = cycles[rows], likelihood[rows], target[rows]
        at = slots[rows]
        belief = self.likelihood[:, at] * prior
        belief /= belief.sum(2, keepdims=True)
        belief = faded(belief, target, HAZARDS[:, None, None], cycles) * likelihood
        predicted = belief.sum(2, keepdims=True)
        age = self._keep ** np.arange(rows.size - 1, -1, -1)
        self.score = self.score * self._keep**rows.size + np.log(predicted[:, :, 0]) @ age
        self.score -= self.score.max()
        rescaled = belief / prior
        self.likelihood[:, at] = rescaled / rescaled.max(2, keepdims=True)

    def learn(self) -> None:
        """Sets `hazard` (per uniform cycle) to the mean of the hazards under their present weights."""
        odds = self.score - DOUBT
        weights = np.exp(odds - odds.max())
        self.hazard = float(weights @ HAZARDS / weights.sum())

    def slide(self, prior: NDArray[np.float64], by: int) -> None:
        """Follows a slide of the rate window."""
        flat = self.likelihood.reshape(-1, CELLS)
        moved = slide(flat, prior, np.full(len(flat), by))
        self.likelihood = moved.reshape(self.likelihood.shape)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for storage."""
        return {"bank": self.likelihood, "score": self.score, "hazard": np.array([self.hazard])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Puts back what `state` gave."""
        self.likelihood = arrays["bank"].reshape(self.likelihood.shape)
        self.score, self.hazard = arrays["score"], float(arrays["hazard"][0])
