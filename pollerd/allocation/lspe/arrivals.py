"""Estimated rates of new items at each site, from its polls. One row per site, struct of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.slots.elapsed import NEVER_POLLED_S
from pollerd.allocation.slots.poll_counts import FIELDS as POLL_COUNT_FIELDS
from pollerd.allocation.slots.poll_counts import PollCounts

FIELDS = (*POLL_COUNT_FIELDS, "counted", "items", "seconds")
_FIRST_OWN_FIELD = len(POLL_COUNT_FIELDS)
_MEMORY_POLLS = 128
_MOST_ITEMS, _LONGEST_S = 2.0**63, NEVER_POLLED_S * (1.0 + 1e-9)
"""Largest number of items, and seconds, per poll, up to rounding."""
_PRIOR = 0.5
"""A site's counts start as if half an item had arrived in half a cycle."""


class Arrivals:
    """Poll counts, and for polls with a count of new items: number of polls, items, and seconds of their gaps.

    At 128 polls with counts a site's counts are halved, like poll counts, because rates drift.
    """

    def __init__(self) -> None:
        self._poll_counts = PollCounts()
        self._counts = np.zeros((0, len(FIELDS) - _FIRST_OWN_FIELD))

    def grow(self, capacity: int) -> None:
        """Grows to `capacity` sites."""
        self._poll_counts.grow(capacity)
        more = max(capacity - len(self._counts), 0)
        self._counts = np.concatenate([self._counts, np.zeros((more, self._counts.shape[1]))])

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Resets slots int64[k]."""
        self._poll_counts.rows[slots], self._counts[slots] = 0.0, 0.0

    def rows(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns all counts of slots int64[k], float64[k, fields]."""
        return np.concatenate([self._poll_counts.rows[slots], self._counts[slots]], axis=1)

    def sound(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns which rows float64[k, fields] are possible output of `rows`, bool[k]."""
        counted, items, seconds = rows[:, _FIRST_OWN_FIELD:].T
        with np.errstate(invalid="ignore", over="ignore"):
            few = (counted >= 0) & (counted <= _MEMORY_POLLS)
            some = (items >= 0) & (items <= counted * _MOST_ITEMS)
            some &= (seconds >= 0) & (seconds <= counted * _LONGEST_S)
        return np.asarray(self._poll_counts.sound(rows[:, :_FIRST_OWN_FIELD]) & few & some)

    def put_rows(self, slots: NDArray[np.int64], rows: NDArray[np.float64]) -> None:
        """Restores the output of `rows`."""
        self._poll_counts.rows[slots], self._counts[slots] = rows[:, :_FIRST_OWN_FIELD], rows[:, _FIRST_OWN_FIELD:]

    def note(
        self,
        slots: NDArray[np.int64],
        elapsed: NDArray[np.float64],
        evidence: EvidenceBatch,
        items: NDArray[np.float64] | None = None,
        seconds: NDArray[np.float64] | None = None,
    ) -> None:
        """Adds polls of slots int64[k], may repeat, elapsed float64[k] s finite.

        items, seconds float64[k]: numbers of new items, -1 where unknown, and the time in which they came, s; None: as
        the evidence and the gaps have them.
        """
        elapsed = np.minimum(elapsed, NEVER_POLLED_S)
        self._poll_counts.note(slots, elapsed, evidence.changed)
        number = evidence.count if items is None else items
        informative = number >= 0
        seconds = elapsed if seconds is None else np.minimum(seconds, NEVER_POLLED_S)
        counted = np.column_stack([np.ones(len(slots)), number, seconds])
        np.add.at(self._counts, slots[informative], counted[informative])
        while (full := self._counts[slots, 0] >= _MEMORY_POLLS).any():
            self._counts[np.unique(slots[full])] /= 2

    def changes(self, slots: NDArray[np.int64], cycle: float) -> NDArray[np.float64]:
        """Returns changes per second of slots int64[k], float64[k] > 0, from changed or not; cycle s: prior gap."""
        return self._poll_counts.rates(len(self._poll_counts.rows), cycle)[slots]

    def items(self, slots: NDArray[np.int64], cycle: float) -> NDArray[np.float64]:
        """Returns items per second, from counts for sites that have polls with counts; `changes` for the others."""
        counted, items, seconds = self._counts[slots].T
        return np.where(counted > 0, (items + _PRIOR) / (seconds + _PRIOR * cycle), self.changes(slots, cycle))
