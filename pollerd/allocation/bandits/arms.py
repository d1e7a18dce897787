"""What every player keeps of its arms: how often each was pulled, and what the pulls came to."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Arms(ABC):
    """m arms. `counts` float64[m] pulls and `sums` float64[m] of their rewards are all that a player knows.

    What a choice costs its class says; an update costs O(1).
    """

    def __init__(self, number: int) -> None:
        self.counts = np.zeros(number)
        self.sums = np.zeros(number)

    @abstractmethod
    def choose(self, rng: np.random.Generator) -> int:
        """The arm to be pulled next; the first of equals. Learns nothing."""

    def learn(self, arm: int, reward: float) -> None:
        """The arm was pulled and gave the reward."""
        self.counts[arm] += 1.0
        self.sums[arm] += reward
