"""UCB-1: the arm with the highest upper confidence bound ([B] 3.2.1 and its reference 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.bandits.arms import Arms


def ucb1_bounds(counts: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `mean + sqrt(2 ln t / n)` of each arm after t pulls in all, float64[m]; inf for an arm never pulled."""
    pulled = np.maximum(counts, 1.0)
    total = max(float(counts.sum()), 1.0)
    return np.asarray(np.where(counts > 0, sums / pulled + np.sqrt(2 * np.log(total) / pulled), np.inf))


class Ucb1(Arms):
    """Pulls each arm once, in order, then the one with the highest bound: O(m) a choice among m arms."""

    def choose(self, rng: np.random.Generator) -> int:
        return int(ucb1_bounds(self.counts, self.sums).argmax())
