"""Which site has which place in a state that all sites share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


class StateIndex:
    """Seats 0..number-1 of a few sites; who comes takes the first that is free, and gets a ticket nobody had before.

    A ticket tells whether what a stored state says of a seat was learned of the site that says the seat is its own.
    """

    def __init__(self) -> None:
        self._slot = np.zeros(0, np.int64)
        """Who sits there; -1: nobody."""
        self.generations = np.zeros(0, np.int64)
        """Of whoever sat there last, int64[number]."""
        self.issued = 0

    @property
    def number(self) -> int:
        """Seats, taken or free."""
        return len(self._slot)

    def take(self, slots: NDArray[np.int64]) -> None:
        """Seats slots int64[k] that have none."""
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
        """Frees the seats of slots int64[k]; which they are, bool[number]."""
        left = np.isin(self._slot, slots)
        self._slot[left] = -1
        return left

    def of(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Seats of slots int64[k], all seated."""
        return np.asarray((slots[:, None] == self._slot).argmax(axis=1), np.int64) if self.number else slots[:0]

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Slots and their seats, in the order of seats, int64[k] each."""
        positions = np.flatnonzero(self._slot >= 0)
        return self._slot[positions], positions

    def reassign(
        self, stored_at: Mapping[int, tuple[int, int]], generations: NDArray[np.int64], issued: int
    ) -> NDArray[np.bool_]:
        """After a break: sites come back to the seats they claim, slot -> (seat, ticket); all others are seated anew.

        tickets int64[m] and issued as they were stored. Returns which seats, bool[number], hold somebody else than is
        stored, or nobody. Of two claims to a seat the later ticket wins.
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
