"""GP-UCB: arms on a line whose rewards are correlated by a Gaussian process ([B] 5.3 and its reference 46)."""

from __future__ import annotations

import numpy as np

from pollerd.allocation.bandits.arms import Arms
from pollerd.allocation.gpoks.belief import believe
from pollerd.allocation.gpoks.kernel import Kernel, index_set

_DEVIATIONS = 2.0
_DIGITS = 9
"""Decimals to which bounds are compared: those of untried arms are equal up to rounding."""


class GpUcb(Arms):
    """Pulls the arm with the largest `mean + 2σ`. The arms are spaced evenly on [0, 1] without its ends; [B]'s kernel.

    A choice among m arms costs O(m r²) with the r features of the kernel on them, 7 for 99 arms (gpoks/belief.py).
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._index = index_set(np.arange(1, number + 1) / (number + 1), Kernel())

    def choose(self, rng: np.random.Generator) -> int:
        belief = believe(self._index, self.counts[None], self.sums[None])
        return int(np.round(belief.mean[0] + _DEVIATIONS * belief.deviation[0], _DIGITS).argmax())
