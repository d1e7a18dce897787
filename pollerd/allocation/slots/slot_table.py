"""Slots in use, with the settings of a site that all allocators need: weight, cost, half-life. Struct of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.slots.validation import column, distinct_slots, floats, row_numbers
from pollerd.columns import Columns
from pollerd.errors import InvalidValueError

ROWS_AT_A_TIME = 65_536
"""Number of rows per step in the search for the end of the table."""


class SlotTable(Columns):
    """Rows of the sites.

    `used` bool[capacity], `weight`, `cost` float64[capacity], `half_life`, `deadline` float64[capacity] in s (nan:
    default), `weight_per_cost` = weight / cost, `items_shown` float64[capacity] >= 1, how many of its newest items a
    site shows (nan: no limit is known).
    `n` is the highest slot in use + 1, `size` the number of sites, `total_cost` the sum of their costs.
    """

    _DEFAULTS = {  # noqa: RUF012
        "used": (np.bool_, False),
        "weight": (np.float64, 1.0),
        "cost": (np.float64, 1.0),
        "half_life": (np.float64, np.nan),
        "deadline": (np.float64, np.nan),
        "weight_per_cost": (np.float64, 1.0),
        "items_shown": (np.float64, np.nan),
    }
    _SELDOM_SET = frozenset({"weight", "cost", "half_life", "deadline", "weight_per_cost", "items_shown"})

    used: NDArray[np.bool_]
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    half_life: NDArray[np.float64]
    deadline: NDArray[np.float64]
    weight_per_cost: NDArray[np.float64]
    items_shown: NDArray[np.float64]

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.size = 0
        self.total_cost = 0.0

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None,
        deadline: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int64]:
        """Adds the slots and returns them as int64[k]; raises InvalidValueError, then changes nothing."""
        slots = distinct_slots(slots)
        k = len(slots)
        weight = column("weight", weight, k, zero=True)
        cost = column("cost", cost, k)
        life, due = (
            np.full(k, np.nan) if given is None else column(name, given, k, missing=True)
            for name, given in (("half_life", half_life), ("deadline", deadline))
        )
        if (slots < self.capacity).any() and self.used[slots[slots < self.capacity]].any():
            raise InvalidValueError("slots", "unused rows", slots[slots < self.capacity])
        if k:
            self.grow(int(slots.max()) + 1)
        self.used[slots] = True
        columns = {"weight": weight, "cost": cost, "half_life": life, "deadline": due}
        columns |= {"weight_per_cost": weight / cost, "items_shown": np.full(k, np.nan)}
        for name, values in columns.items():
            self.put(name, slots, values)
        self.n = max(self.n, int(slots.max(initial=-1)) + 1)
        self.size += k
        self._sum_costs()
        return slots

    def set_items_shown(self, slots: NDArray[np.int64], items: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sets `items_shown` of slots int64[k] in use, float64[k] >= 1, inf: no limit is known. Returns them."""
        slots = self.known(slots)
        shown = floats("items", items)
        if shown.shape != slots.shape or (shown < 1).any():
            raise InvalidValueError("items", f"{len(slots)} values >= 1 or nan", items)
        self.put("items_shown", slots, np.where(np.isfinite(shown), shown, np.nan))
        return slots

    def remove(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Frees the slots and returns them as int64[k]."""
        slots = self.known(distinct_slots(slots))
        self.used[slots] = False
        self.size -= len(slots)
        self._find_end()
        self._sum_costs()
        return slots

    def known(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the slots as int64[k], all in use; raises InvalidValueError else."""
        slots = row_numbers("slots", slots)
        if slots.ndim != 1 or (slots.size and (slots.min() < 0 or slots.max() >= self.n)):
            raise InvalidValueError("slots", f"row numbers below {self.n}", slots)
        if not self.used[slots].all():
            raise InvalidValueError("slots", "rows in use", slots[~self.used[slots]])
        return slots

    def admit_equal(
        self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64], allocator: str
    ) -> None:
        """Implements `Allocator.admit` for allocators of equal sites: refuses any other weight or cost."""
        slots, others = row_numbers("slots", slots), self.used.copy()
        others[slots[slots < len(others)]] = False
        for field, values, known in (("weight", weight, self.weight), ("cost", cost, self.cost)):
            given = np.atleast_1d(floats(field, values))
            values = np.unique(np.concatenate([known[others], given]))
            if len(values) > 1:
                usual = float(known[others][0]) if others.any() else float(given[0])
                odd = values[values != usual]
                raise InvalidValueError(
                    field, f"{usual:g} as for every site while {allocator} allocates", float(odd[0])
                )

    def admit_at_most(self, most: int, slots: NDArray[np.int64], sites: int, allocator: str) -> None:
        """Implements `Allocator.admit` for allocators of few sites: raises if `sites` more would exceed `most`."""
        slots = row_numbers("slots", slots)
        inside = slots[(slots >= 0) & (slots < self.capacity)]
        number = self.size + sites - int(self.used[inside].sum())
        if number > most:
            raise InvalidValueError("number of sites", f"at most {most} while {allocator} allocates", number)

    def check_polls(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Checks `observe` input: slots in use int64[k], elapsed float64[k] >= 0 s; raises InvalidValueError."""
        slots = self.known(slots)
        elapsed = floats("elapsed", elapsed)
        if elapsed.shape != slots.shape or not (elapsed >= 0).all():
            raise InvalidValueError("elapsed", f"{len(slots)} values >= 0 s", elapsed)
        if len(evidence) != len(slots):
            raise InvalidValueError("evidence", f"{len(slots)} rows", len(evidence))
        return slots, elapsed

    def check_elapsed(self, elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns elapsed as float64[m >= n]; nan is left to `max`-like clipping by the caller's formula."""
        elapsed = floats("elapsed", elapsed)
        if elapsed.ndim != 1 or len(elapsed) < self.n:
            raise InvalidValueError("elapsed", f"at least {self.n} rows", elapsed.shape)
        return elapsed

    def _find_end(self) -> None:
        """Recomputes `n` after slots were removed."""
        while self.n and not self.used[self.n - 1]:
            low = max(self.n - ROWS_AT_A_TIME, 0)
            rows = np.flatnonzero(self.used[low : self.n])
            self.n = low + (int(rows[-1]) + 1 if rows.size else 0)

    def _sum_costs(self) -> None:
        """Sums the costs from scratch, so that the total does not depend on the order of additions and removals."""
        if self.is_as_ever("cost"):  # all are 1: avoids a pass over a growing list of millions with every block
            self.total_cost = float(self.size)
        else:
            self.total_cost = float(self.cost[self.used].sum())
