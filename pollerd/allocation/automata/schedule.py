"""Choice from a hierarchy under eligibility: a tournament of the eligible leaves, and a pool of waiting ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.automata.hierarchy import Hierarchy
from pollerd.allocation.automata.tournament import Tournament
from pollerd.allocation.slots.elapsed import NEVER_POLLED_S, SAME_S, finite
from pollerd.allocation.slots.ranking import top

_LOOKS_A_CHOICE = 4
_LOOKS_MORE = 256


class Schedule:
    """Finds the most urgent leaves.

    The caller's elapsed times are looked at when a leaf comes up: a poll only ever makes a leaf less urgent, so a leaf
    that comes up with an outdated last poll is corrected and moves down. A leaf that comes up and is not eligible waits
    outside until it is; sites never polled wait there, too.
    """

    def __init__(self, tree: Hierarchy) -> None:
        self._tree = tree
        self.renew(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def renew(self, slots: NDArray[np.int64], leaves: NDArray[np.int64]) -> None:
        """Starts over after the tree was laid out again: slots int64[n] are on leaves int64[n]."""
        self._slot = np.full(self._tree.capacity, -1)
        self._slot[leaves] = slots
        self._start_over(-NEVER_POLLED_S)

    def _start_over(self, now: float) -> None:
        self._tournament = Tournament(self._tree, now)
        self._waiting = np.flatnonzero(self._slot >= 0)

    def place(self, slots: NDArray[np.int64], leaves: NDArray[np.int64]) -> None:
        """Puts slots int64[k] on leaves int64[k]."""
        if self._tree.capacity != len(self._slot):
            known = np.flatnonzero(self._slot >= 0)
            self.renew(np.concatenate([self._slot[known], slots]), np.concatenate([known, leaves]))
            return
        self._slot[leaves] = slots
        self._waiting = np.concatenate([self._waiting, leaves])
        self._tournament.look_again(leaves)

    def remove(self, leaves: NDArray[np.int64]) -> None:
        """Empties leaves int64[k]."""
        self._slot[leaves] = -1
        self._waiting = self._waiting[self._slot[self._waiting] >= 0]
        self._tournament.leave(leaves)

    def set_aside(self, leaves: NDArray[np.int64]) -> None:
        """Takes polled leaves int64[k], repeats allowed, out of the tournament; they re-enter at the next choice."""
        leaves = np.unique(leaves)
        self._waiting = np.concatenate([self._waiting, leaves[self._tournament.takes_part(leaves)]])
        self._tournament.leave(leaves)

    def choose(
        self,
        elapsed: NDArray[np.float64],
        credit: NDArray[np.float64],
        now: float,
        eligible: NDArray[np.bool_],
        k: int,
    ) -> NDArray[np.int64] | None:
        """Returns slots that include the k most urgent eligible ones, int64[>= k] if there are as many, unordered.

        None: nearly all that came up were not eligible.
        """
        if now < self._tournament.now:
            self._start_over(now)
        self._tournament.advance(now)
        fresh = self._let_in(elapsed, credit, now, eligible)
        if len(fresh) > k:
            fresh = fresh[top(self._tree.amounts(fresh), k)]
        found = self._look(elapsed, credit, now, eligible, k)
        return None if found is None else np.asarray(np.concatenate([self._slot[fresh], found]), np.int64)

    def _let_in(
        self, elapsed: NDArray[np.float64], credit: NDArray[np.float64], now: float, eligible: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Lets waiting leaves re-enter that are eligible again; returns the eligible leaves of sites never polled."""
        slots = self._slot[self._waiting]
        able, new = eligible[slots], np.isposinf(elapsed[slots])
        back = able & ~new
        fresh = np.asarray(self._waiting[able & new], np.int64)
        if back.any():
            leaves, slots = self._waiting[back], slots[back]
            self._tournament.enter(leaves, now - finite(elapsed[slots]) - credit[slots])
            self._waiting = self._waiting[~back]
        return fresh

    def _look(
        self,
        elapsed: NDArray[np.float64],
        credit: NDArray[np.float64],
        now: float,
        eligible: NDArray[np.bool_],
        k: int,
    ) -> NDArray[np.int64] | None:
        """Goes down the ranking until k leaves have been found whose last poll is up to date."""
        found: list[int] = []
        moved: list[int] = []
        barred: list[int] = []
        looks = _LOOKS_A_CHOICE * k + _LOOKS_MORE
        for leaf, last in self._tournament.ranking():
            slot = self._slot[leaf]
            if not eligible[slot]:
                barred.append(leaf)
            elif not abs(now - float(elapsed[slot] + credit[slot]) - last) < SAME_S:
                moved.append(leaf)
            else:
                found.append(leaf)
            looks -= 1
            if len(found) == k or not looks:
                break
        out = np.asarray(self._slot[found + moved], np.int64)
        if moved:
            slots = self._slot[moved]
            self._tournament.enter(np.array(moved), now - finite(elapsed[slots]) - credit[slots])
        if barred:
            self._tournament.leave(np.array(barred))
            self._waiting = np.concatenate([self._waiting, barred])
        return None if not looks and len(found) < k else out
