"""Earliest deadline first, the scheduler of [A] 3.1.1: polls each site at an even pace and at its given frequency.

Amounts x_i are frequencies: site i has the period 1 / x_i, and its next deadline is one period after its last deadline,
not after its last poll. Its next poll is released at its last deadline; of the released polls the one with the earliest
deadline is made, and an unreleased one only if there is no other. So every site is polled with its frequency at nearly
even gaps, which random draws in proportion to the amounts would not give; and `d_i(x_i)` depends on the gaps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.elapsed import SAME_S, credit_after, finite
from pollerd.columns import lengthen

LONGEST_PERIOD_S = 1e11
"""Replaces a period of inf: 3,000 years."""
_UNRELEASED_S = 1e12
"""Subtracted from the lateness of a site whose next poll is not released."""


class EarliestDeadlineFirst:
    """Deadlines by slot. Periods may change between polls: a deadline is the last one plus the current period.

    `credit` float64[capacity]: seconds by which each site's last poll came after its deadline (before it: < 0), within
    one period (`credit_after`). jumps: whether periods may jump; credit is then clipped to the current period, because
    an early poll under a long period would otherwise hold the site back for many of its new periods. A look at n slots
    costs O(n), recording k polls O(k).
    """

    def __init__(self, *, jumps: bool = False) -> None:
        self._jumps = jumps
        self.credit = np.zeros(0)

    def grow(self, capacity: int) -> None:
        """Grows to `capacity` slots."""
        if capacity > len(self.credit):
            lengthen(vars(self), "credit", capacity - len(self.credit), 0.0)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Resets slots int64[k]."""
        self.credit[slots] = 0.0

    def lateness(self, elapsed: NDArray[np.float64], period: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns seconds since the deadline of slots 0..n-1 (before it: < 0), float64[n]: the largest is next.

        10^12 less if the next poll is not released yet. elapsed float64[n] s since the last poll, inf if never polled,
        invalid gaps count as 0; period float64[n] s > 0.
        """
        period, credit = np.minimum(period, LONGEST_PERIOD_S), self.credit[: len(elapsed)]
        since_release = finite(elapsed) + (np.clip(credit, -period, period) if self._jumps else credit)
        late = since_release - period
        return np.where(since_release > SAME_S, late, late - _UNRELEASED_S)

    def polled(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], period: NDArray[np.float64]) -> None:
        """Records polls of distinct slots int64[k] after elapsed float64[k] s, under periods float64[k] s."""
        period = np.minimum(period, LONGEST_PERIOD_S)
        self.credit[slots] = credit_after(elapsed, self.credit[slots], period)
