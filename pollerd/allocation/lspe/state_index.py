"""Assignment of sites to positions in the shared state vector."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


class StateIndex:
    """Positions 0..number-1 of a few sites: a new site takes the first free one, with a new generation number.

    The generation shows whether stored values at a position were learned from the site stored there.
    """

    def __init__(self) -> None:
        self._slot = np.zeros(0, np.int64)
        """Slot at each position; -1: free."""
        self.generations = np.zeros(0, np.int64)
        """Generation of the last site at each position, int64[number]."""
        self.issued = 0
        """Newest generation so far."""

    @property
    def number(self) -> int:
        """Number of positions, taken or free."""
        return len(self._slot)

    def take(self, slots: NDArray[np.int64]) -> None:
        """Assigns positions to slots int64[k] that have none."""
        for slot in slots.tolist():
            free = np.flatnonzero(self._slot < 0)
            if not len(free):
                self._make_room(self.number + 1)
            self.issued += 1
            self._put(slot, int(free[0]) if len(free) else self.number - 1, self.issued)

    def _make_room(self, number: int) -> None:
        more = max(number - self.number, 0)
        self._slot = np.append(self._slot, np.full(more, -1))
        self.generations = np.append(self.generations, np.zeros(more, np.int64))

    def _put(self, slot: int, position: int, generation: int) -> None:
        self._slot[position], self.generations[position] = slot, generation

    def release(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Frees the positions of slots int64[k] and returns them as bool[number]."""
        left = np.isin(self._slot, slots)
        self._slot[left] = -1
        return left

    def of(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the positions int64[k] of slots int64[k] that have one."""
        return np.asarray((slots[:, None] == self._slot).argmax(axis=1), np.int64) if self.number else slots[:0]

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns slots and their positions, ordered by position, int64[k] each."""
        positions = np.flatnonzero(self._slot >= 0)
        return self._slot[positions], positions

    def reassign(
        self, stored_at: Mapping[int, tuple[int, int]], generations: NDArray[np.int64], issued: int
    ) -> NDArray[np.bool_]:
        """Restores stored positions, slot -> (position, generation); other sites get new ones.

        generations int64[m] and issued as stored. Returns which positions, bool[number], are free or hold another site
        than stored. If two sites are stored at one position the later generation wins.
        """
        everyone, _ = self.pairs()
        self._slot, self.generations = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._make_room(max([len(generations), *(position + 1 for position, _ in stored_at.values())]))
        for slot, (position, generation) in sorted(stored_at.items(), key=lambda stored: stored[1][1]):
            self._put(slot, position, generation)
        stored = np.append(generations, np.zeros(self.number - len(generations), np.int64))
        known = (self._slot >= 0) & (self.generations == stored)
        self.issued = max(issued, int(self.generations.max(initial=0)), int(stored.max(initial=0)))
        self.take(np.setdiff1d(everyone, self._slot))
        return ~np.append(known, np.zeros(self.number - len(known), np.bool_))
