"""Thompson sampling of independent arms with Gaussian beliefs ([B] 3.3.1, (3.8), 7.2.2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pollerd.allocation.bandits.arms import Arms

_PRIOR_MEAN = 0.7


class Thompson(Arms):
    """Pulls the arm with the largest draw from its belief; prior N(.7, .2) and rewards of variance .05, as in [B].

    The .2 is read as a variance, as everywhere else in [B] except its example 3.2. After n rewards with the sum S, [B]
    (3.8) applied n times, the belief about an arm is N(M, V) with

        1 / V = 1 / .2 + n / .05,   M = V (.7 / .2 + S / .05)

    A choice among m arms costs O(m).
    """

    prior_variance: ClassVar[float] = 0.2
    reward_variance: ClassVar[float] = 0.05

    def choose(self, rng: np.random.Generator) -> int:
        precision = 1.0 / self.prior_variance + self.counts / self.reward_variance
        mean = (_PRIOR_MEAN / self.prior_variance + self.sums / self.reward_variance) / precision
        return int((mean + rng.standard_normal(len(mean)) / np.sqrt(precision)).argmax())
