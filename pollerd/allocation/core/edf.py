"""Earliest deadline first, the scheduler of [A] 3.1.1: turns amounts into polls, each site at an even pace.

Amounts x_i are frequencies: site i has the period 1 / x_i, and its next deadline lies one period after its last one,
not after its last poll. Its next poll is released at its last deadline; of the polls released the one with the earliest
deadline is made, and one that is not released only if there is no other. So every site is polled with its frequency, at
nearly even gaps, which draws in proportion to the amounts would not give; and the gaps are what `d_i(x_i)` is about.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.elapsed import SAME_S, credit_after, finite
from pollerd.columns import lengthen

LONGEST_PERIOD_S = 1e11
"""Stands for a period of inf: 3,000 years."""
_UNRELEASED_S = 1e12
"""So much less late counts a site whose next poll is not released."""


class EarliestDeadlineFirst:
    """Deadlines by slot. Between polls periods may change as they like: a deadline is its last one and the new period.

    `credit` float64[capacity]: seconds that each site's last poll came after its deadline (before it: < 0), within one
    period (`credit_after`). jumps: whether periods may jump; credit then counts within the period that a site has now:
    one that was polled early under a long period would be held back by that for many of its new ones.

    A look at n slots costs O(n), an entry of k polls O(k).
    """

    def __init__(self, *, jumps: bool = False) -> None:
        self._jumps = jumps
        self.credit = np.zeros(0)

    def grow(self, capacity: int) -> None:
        """Room for so many slots."""
        if capacity > len(self.credit):
            lengthen(vars(self), "credit", capacity - len(self.credit), 0.0)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Slots int64[k] start afresh."""
        self.credit[slots] = 0.0

    def lateness(self, elapsed: NDArray[np.float64], period: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds since the deadline of slots 0..n-1 (before it: < 0), float64[n]: the largest is next.

        Where the next poll is not released yet, 10^12 less. elapsed float64[n] s since the last poll, inf where never
        polled, anything else that is no gap counts as 0; period float64[n] s > 0.
        """
        period, credit = np.minimum(period, LONGEST_PERIOD_S), self.credit[: len(elapsed)]
        since_release = finite(elapsed) + (np.clip(credit, -period, period) if self._jumps else credit)
        late = since_release - period
        return np.where(since_release > SAME_S, late, late - _UNRELEASED_S)

    def polled(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], period: NDArray[np.float64]) -> None:
        """Slots int64[k], no two the same, were polled after elapsed float64[k] s, under periods float64[k] s."""
        period = np.minimum(period, LONGEST_PERIOD_S)
        self.credit[slots] = credit_after(elapsed, self.credit[slots], period)
