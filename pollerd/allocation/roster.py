"""Which slots are in use, with what every allocator knows of a site: weight, cost, half-life. Struct of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.validation import column, distinct_slots
from pollerd.errors import InvalidValueError

_MANY = 65_536
"""Rows from which on they grow by an eighth instead of doubling: room not used is memory, too."""


class Roster:
    """Rows of the sites, grown by shares of what there is, so that adding one by one stays O(1) amortised.

    `used` bool[capacity], `weight`, `cost` float64[capacity], `half_life` float64[capacity] in s (nan: default),
    `worth` = weight / cost.
    `n` is the highest slot in use + 1, `size` the number of sites, `total_cost` the sum of their costs.
    """

    def __init__(self) -> None:
        self.used: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.weight = np.zeros(0)
        self.cost = np.zeros(0)
        self.half_life = np.zeros(0)
        self.worth = np.zeros(0)
        self.n = 0
        self.size = 0
        self.total_cost = 0.0

    @property
    def capacity(self) -> int:
        """Rows there is room for."""
        return len(self.used)

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None,
    ) -> NDArray[np.int64]:
        """Takes the slots in and returns them as int64[k]; raises InvalidValueError and changes nothing else."""
        slots = distinct_slots(slots)
        k = len(slots)
        weight = column("weight", weight, k, zero=True)
        cost = column("cost", cost, k)
        life = np.full(k, np.nan) if half_life is None else column("half_life", half_life, k, missing=True)
        if (slots < self.capacity).any() and self.used[slots[slots < self.capacity]].any():
            raise InvalidValueError("slots", "unused rows", slots[slots < self.capacity])
        if k:
            self._grow(int(slots.max()) + 1)
        self.used[slots] = True
        self.weight[slots], self.cost[slots], self.half_life[slots] = weight, cost, life
        self.worth[slots] = weight / cost
        self._count()
        return slots

    def remove(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Frees the slots and returns them as int64[k]."""
        slots = self.known(distinct_slots(slots))
        self.used[slots] = False
        self._count()
        return slots

    def known(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots as int64[k], all in use; raises InvalidValueError else."""
        slots = np.asarray(slots, np.int64)
        if slots.ndim != 1 or (slots.size and (slots.min() < 0 or slots.max() >= self.n)):
            raise InvalidValueError("slots", f"row numbers below {self.n}", slots)
        if not self.used[slots].all():
            raise InvalidValueError("slots", "rows in use", slots[~self.used[slots]])
        return slots

    def check_elapsed(self, elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Elapsed as float64[m >= n]; a nan in it is left to `max`-like clipping by the caller's formula."""
        elapsed = np.asarray(elapsed, np.float64)
        if elapsed.ndim != 1 or len(elapsed) < self.n:
            raise InvalidValueError("elapsed", f"at least {self.n} rows", elapsed.shape)
        return elapsed

    def _grow(self, needed: int) -> None:
        if needed > self.capacity:
            more = self.capacity if self.capacity < _MANY else self.capacity // 8
            extra = max(needed - self.capacity, more, 64)
            self.used = np.concatenate([self.used, np.zeros(extra, np.bool_)])
            columns = (self.weight, self.cost, self.half_life, self.worth)
            self.weight, self.cost, self.half_life, self.worth = (np.concatenate([a, np.zeros(extra)]) for a in columns)

    def _count(self) -> None:
        """Summed afresh each time, so that the figures do not depend on the order of comings and goings."""
        rows = np.flatnonzero(self.used)
        self.n = int(rows[-1]) + 1 if rows.size else 0
        self.size = int(rows.size)
        self.total_cost = float(self.cost[rows].sum())
