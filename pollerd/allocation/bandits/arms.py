"""Base class of the players: number of pulls and sum of rewards of each arm."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Arms(ABC):
    """m arms. A player's only data are `counts` float64[m] of pulls and `sums` float64[m] of their rewards.

    The subclass states the cost of a choice; an update costs O(1).
    """

    def __init__(self, number: int) -> None:
        self.counts = np.zeros(number)
        self.sums = np.zeros(number)

    @abstractmethod
    def choose(self, rng: np.random.Generator) -> int:
        """Returns the arm to pull next; the first on ties. Learns nothing."""

    def learn(self, arm: int, reward: float) -> None:
        """Records that the arm was pulled and gave the reward."""
        self.counts[arm] += 1.0
        self.sums[arm] += reward
