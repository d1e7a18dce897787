"""The index under `delay` and `deadline` on learned rates (docs/objectives.md).

Both are linear in the rate, so the mean rate takes its place. Under `deadline` polls before the deadline gain nothing,
and all later ones the same: equal indices are common. Spare polls go where most changes would wait longest, as under
`delay`, and among equal indices of sites that are due the one that has waited longer goes first: it loses nothing, and
polls are spread over sites about which little is known.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.objectives.priced_sites import deadlines
from pollerd.allocation.core.objectives.timeliness import CLOCK_ERROR_S, deadline_index, delay_index
from pollerd.allocation.slots.slot_table import SlotTable
from pollerd.allocation.whittle.age_split import Part

Array = NDArray[np.float64]
EARLY = 1e-6
"""Index of a site just before its deadline, as a share of that at its deadline."""
_TIE_SLOPE = 1e-6
"""Relative increase of the index of a site that is due, per deadline."""
_MOST_JUMPS = 16
"""Different deadlines told to those who tabulate urgencies."""


class TimelyIndex:
    """Indices of sites whose changes should be found soon.

    deadline: s, of sites without their own; None for `delay`.
    """

    def __init__(self, slot_table: SlotTable, deadline: float | None) -> None:
        self._slot_table, self._usual = slot_table, deadline

    @property
    def has_deadlines(self) -> bool:
        """Whether the objective is `deadline`."""
        return self._usual is not None

    def index(self, part: Part, gap: Array, rates: Array) -> Array:
        """Returns the index of the slots in `part` for weight and cost 1, float64[k], of mean rates float64[k], 1/s."""
        if self._usual is None:
            return delay_index(gap, rates)
        return self.by_deadline(gap, rates, self.deadlines(part))

    def by_deadline(self, gap: Array, rates: Array, deadline: Array) -> Array:
        """Returns the index under `deadline` for weight and cost 1, with polls before it ordered as under `delay`."""
        share = gap / deadline
        early = EARLY * rates * deadline * np.minimum(share, 1.0) ** 2
        return np.asarray(np.maximum(deadline_index(gap, rates, deadline) * (1.0 + _TIE_SLOPE * share), early))

    def deadlines(self, part: Part) -> Array:
        """Returns the deadlines in s of the slots in `part`, float64[k]; inf under `delay`."""
        return deadlines(self._slot_table.deadline[part], math.inf if self._usual is None else self._usual)

    def until_due(self, part: Part, gap: Array) -> Array:
        """Returns the s until the deadlines of the slots in `part` pass, after gaps float64[k] s; inf: they have."""
        left = self.deadlines(part) - gap
        return np.where(left > CLOCK_ERROR_S, left, np.inf)

    def jumps(self) -> Array:
        """Returns gaps at which indices jump, float64[2 m] s, ascending: before and at each deadline in use."""
        if self._usual is None or not self._slot_table.n:
            return np.empty(0)
        n = self._slot_table.n
        at = np.unique(self.deadlines(slice(0, n))[self._slot_table.used[:n]])[:_MOST_JUMPS]
        return np.sort(np.concatenate([at - 4 * CLOCK_ERROR_S, at]))
