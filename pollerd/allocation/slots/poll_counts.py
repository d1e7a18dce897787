"""Counts of polls and changes of each site, and the estimated rate. One row per site, struct of arrays."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.elapsed import NEVER_POLLED_S
from pollerd.columns import lengthen

FIELDS = ("polls", "changes", "quiet", "busy")
MEMORY_POLLS = 128
MOST_POLLS = 2.0**53
"""Above this, adding one makes no difference in a double."""
_SHORTEST_CYCLE_S = 1e-90
"""Shorter cycles count as this, so that rates are finite."""
_ROUNDING = 1.0 + 1e-9
_PRIOR = 0.5
"""A site starts as if half a poll after one cycle had found a change, and half a poll had not."""


def rate_without_polls(cycle: float) -> float:
    """Returns the rate that `PollCounts.rates` gives a site without polls: `ln 2 / cycle`, 1/s."""
    return math.log(2) / max(cycle, _SHORTEST_CYCLE_S)


SOUND = "no more changes than polls, and at most 10^18 s for each"
"""Condition that `PollCounts.sound` checks, for error messages."""


class PollCounts:
    """Counts of polls and changes, and the seconds between polls without (`quiet`) and with (`busy`) a change.

    At `memory` polls a site's row is halved, so that the last `memory` / 2 to `memory` polls count: rates drift. inf:
    all polls count.
    """

    def __init__(self, memory: float = MEMORY_POLLS) -> None:
        self._memory = memory
        self.rows = np.zeros((0, len(FIELDS)))

    def grow(self, capacity: int) -> None:
        """Grows to `capacity` sites."""
        if capacity > len(self.rows):
            lengthen(vars(self), "rows", capacity - len(self.rows), 0.0)

    def note(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        """Adds polls of slots int64[k], may repeat, elapsed float64[k] s finite, changed bool[k].

        Gaps count as 10^18 s at most.
        """
        elapsed = np.minimum(elapsed, NEVER_POLLED_S)
        found = np.empty((len(slots), len(FIELDS)))
        found[:, 0], found[:, 1] = 1.0, changed
        found[:, 3] = changed * elapsed
        found[:, 2] = elapsed - found[:, 3]
        np.add.at(self.rows, slots, found)
        while (full := self.rows[slots, 0] >= self._memory).any():
            self.rows[np.unique(slots[full])] /= 2

    def sound(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns which rows float64[k, fields] are possible poll counts, bool[k]; `SOUND` states the condition."""
        polls, changes, quiet, busy = rows.T
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(
                (polls <= min(self._memory, MOST_POLLS))
                & ((changes >= 0) & (changes <= polls))
                & ((quiet >= 0) & (quiet <= (polls - changes) * (NEVER_POLLED_S * _ROUNDING)))
                & ((busy >= 0) & (busy <= changes * (NEVER_POLLED_S * _ROUNDING)))
            )

    def rates(self, n: int, cycle: float) -> NDArray[np.float64]:
        """Returns estimated changes per second of slots 0..n-1, float64[n]; cycle s: the gap of a poll in the prior.

        Maximum likelihood of `Π e^{-λτ}` over quiet gaps and `Π (1 - e^{-λτ})` over busy ones ([A] 2.2's d_i), with
        rate λ and gap τ, each busy gap replaced by their mean `b = B / m`: then `e^{λb} - 1 = B / Q`, so
        `λ = ln(1 + B / Q) m / B`.
        """
        cycle = max(cycle, _SHORTEST_CYCLE_S)
        changes, quiet, busy = self.rows[:n, 1] + _PRIOR, self.rows[:n, 2], self.rows[:n, 3]
        quiet, busy = quiet + _PRIOR * cycle, busy + _PRIOR * cycle
        return np.asarray(np.log1p(busy / quiet) * changes / busy)
