"""Balanced binary tree of automata: leaves are sites, and a node splits its amount between its two halves ([A] 3.2).

Nodes are numbered as in a heap: 1 is the root, 2v and 2v + 1 are the children of v, leaf i is node capacity + i. An
empty leaf is [A]'s material of value zero: its amount is 0, and its sibling gets everything.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.automata.traa import UPDATING, TraaSettings, fails, nearest_states, next_state, shares
from pollerd.errors import InvalidValueError

_FEW = 64
"""Up to this number, free leaves are popped from a heap one by one; beyond it the free list is sorted."""
_ONE_BY_ONE = 4
"""Up to this number of leaves, amounts are computed one by one."""
_PATHS_AT_MOST = 16
"""If more than one in this many leaves is asked for, amounts are computed for the whole tree at once."""


class Hierarchy:
    """Tree of automata. `part` float64[2 capacity] is each node's share of its parent's amount; `part[1] = 1`."""

    def __init__(self, settings: TraaSettings) -> None:
        self.settings = settings
        self._lay_out(np.zeros(2, np.int64), np.zeros(2, np.bool_))

    def _lay_out(self, states: NDArray[np.int64], occupied: NDArray[np.bool_]) -> None:
        """Sets the whole tree: states int64[capacity] (0: not set yet), occupied bool[capacity]."""
        self._occupy(states, occupied)
        self._split_all()

    def _occupy(self, states: NDArray[np.int64], occupied: NDArray[np.bool_]) -> None:
        """Sets the tree as `_lay_out` does, but without the shares."""
        self.capacity = len(occupied)
        self.depth = self.capacity.bit_length() - 1
        self.resolution = self._resolutions(self.capacity)
        self.states = states
        self.part = np.ones(2 * self.capacity)
        self.count = np.zeros(2 * self.capacity, np.int64)
        self.count[self.capacity :] = occupied
        for level in range(self.depth - 1, -1, -1):
            self.count[1 << level : 2 << level] = self.count[2 << level : 4 << level].reshape(-1, 2).sum(1)
        self._free = np.flatnonzero(~occupied).tolist()
        unset = self.states == 0
        self.states[unset] = (self.resolution[unset] + 1) // 2
        self._view()

    def _view(self) -> None:
        # Single items are read and written far faster through these memoryviews than through the arrays.
        self._states: Any = self.states.data
        self._part: Any = self.part.data
        self._count: Any = self.count.data
        self._resolution: Any = self.resolution.data

    def _resolutions(self, capacity: int) -> NDArray[np.int64]:
        """Returns the resolution N of each automaton in a tree with `capacity` leaves; index 0 is unused."""
        above = capacity.bit_length() - 2 - np.floor(np.log2(np.maximum(np.arange(capacity), 1)))
        return np.rint(self.settings.resolution * self.settings.growth**above).astype(np.int64)

    def _split(self, nodes: NDArray[np.int64]) -> None:
        """Recomputes the shares below the nodes from their states and from which leaves are occupied."""
        share = self._shares(
            self.states[nodes], self.resolution[nodes], self.count[2 * nodes], self.count[2 * nodes + 1]
        )
        self.part[2 * nodes], self.part[2 * nodes + 1] = share, 1.0 - share

    def _split_all(self) -> None:
        """Recomputes the shares below all nodes."""
        below, part = self.count[2:].reshape(-1, 2), self.part[2:].reshape(-1, 2)
        part[:, 0] = self._shares(self.states[1:], self.resolution[1:], below[:, 0], below[:, 1])
        part[:, 1] = 1.0 - part[:, 0]

    def _shares(
        self,
        states: NDArray[np.int64],
        resolution: NDArray[np.int64],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Returns the share of the left child, float64[m]; `left` and `right` int64[m] count the sites on each side."""
        share = shares(states, resolution, self.settings.exponent)
        return np.asarray(np.where(right == 0, np.where(left == 0, 0.5, 1.0), np.where(left == 0, 0.0, share)))

    # --- occupied leaves -----------------------------------------------------------------------------------------

    def occupied(self) -> NDArray[np.bool_]:
        """Returns which leaves hold a site, bool[capacity]."""
        return np.asarray(self.count[self.capacity :] > 0)

    def add(self, k: int, rng: np.random.Generator | None) -> NDArray[np.int64]:
        """Adds k sites and returns their leaves int64[k], lowest first; the tree grows by levels as needed.

        Without `rng` nothing has been learned yet: all nodes on the path split by their numbers of sites. With it each
        new site gets 1/n and the others keep their amounts in proportion; shares are rounded to states at random.
        """
        while len(self._free) < k:
            self._grow()
        if k > _FEW:
            self._free.sort()
            leaves, self._free = np.array(self._free[:k], np.int64), self._free[k:]
        else:
            leaves = np.array([heapq.heappop(self._free) for _ in range(k)], np.int64)
        before = self.count[1]
        self._count_leaves(leaves, 1)
        if k:
            even = rng is None or before == 0
            self._shift(leaves, np.full(k, 1.0 / max(int(before), 1)), None if even else rng)
        return leaves

    def remove(self, leaves: NDArray[np.int64], rng: np.random.Generator | None) -> None:
        """Empties leaves int64[k]; their amounts go to the others in proportion. `rng` as in `add`."""
        amounts = self.amounts(leaves)
        self._count_leaves(leaves, -1)
        for leaf in leaves.tolist():
            heapq.heappush(self._free, leaf)
        self._shift(leaves, -amounts, rng)

    def _grow(self) -> None:
        old, size = self.states, self.capacity
        states, occupied = np.zeros(2 * size, np.int64), np.zeros(2 * size, np.bool_)
        for level in range(self.depth):
            states[2 << level : 3 << level] = old[1 << level : 2 << level]
        occupied[:size] = self.occupied()
        self._lay_out(states, occupied)

    def _count_leaves(self, leaves: NDArray[np.int64], step: int) -> None:
        for height in range(self.depth + 1):
            np.add.at(self.count, (leaves + self.capacity) >> height, step)

    def _shift(self, leaves: NDArray[np.int64], gain: NDArray[np.float64], rng: np.random.Generator | None) -> None:
        """Adds `gain` float64[k] to the leaves, taken from all in proportion; without rng, splits by site counts."""
        amount = np.ones(len(leaves))
        for height in range(self.depth, 0, -1):
            below = (leaves + self.capacity) >> (height - 1)
            nodes, first, inverse = np.unique(below >> 1, return_index=True, return_inverse=True)
            here = amount[first]
            amount = amount * self.part[below]
            if rng is None:
                left, both = self.count[2 * nodes].astype(np.float64), self.count[nodes].astype(np.float64)
            else:
                both = here + np.bincount(inverse, gain)
                left = here * self.part[2 * nodes] + np.bincount(inverse, np.where(below & 1, 0.0, gain))
            self._aim(nodes, left, both, rng)
            self._split(nodes)

    def _aim(
        self,
        nodes: NDArray[np.int64],
        left: NDArray[np.float64],
        both: NDArray[np.float64],
        rng: np.random.Generator | None = None,
    ) -> None:
        """Moves the nodes to the states nearest to `left / both`; nodes with an empty side keep theirs."""
        choice = (self.count[2 * nodes] > 0) & (self.count[2 * nodes + 1] > 0) & (both > 0)
        wanted = nodes[choice]
        target = np.clip(left[choice] / both[choice], 0.0, 1.0)
        draws = None if rng is None else rng.random(len(wanted))
        self.states[wanted] = nearest_states(target, self.resolution[wanted], self.settings.exponent, draws)

    # --- amounts -------------------------------------------------------------------------------------------------

    def amounts(self, leaves: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Returns the amount x of each leaf (None: of all), float64: the product of the shares on its path; Σ x = 1."""
        if leaves is not None and len(leaves) <= _ONE_BY_ONE:
            return np.array([self._amount(leaf + self.capacity) for leaf in leaves.tolist()], np.float64)
        if leaves is None or len(leaves) * _PATHS_AT_MOST > self.capacity:
            every = self.part[1:2]
            for level in range(1, self.depth + 1):
                every = np.repeat(every, 2) * self.part[1 << level : 2 << level]
            every = np.where(self.occupied(), every, 0.0)
            return every if leaves is None else every[leaves]
        amount = np.ones(len(leaves))
        for height in range(self.depth - 1, -1, -1):
            amount = amount * self.part[(leaves + self.capacity) >> height]
        return amount

    def _amount(self, node: int) -> float:
        """Returns the amount of one leaf, multiplied from the root down, bit-identical to the array version."""
        part, amount = self._part, 1.0
        for height in range(self.depth - 1, -1, -1):
            amount *= part[node >> height]
        return amount

    def split_by(self, amounts: NDArray[np.float64]) -> None:
        """Puts sites on the first n leaves and sets every automaton to split by their amounts float64[n] > 0."""
        occupied = np.zeros(self.capacity, np.bool_)
        occupied[: len(amounts)] = True
        self._occupy(self.states, occupied)
        total = np.zeros(self.capacity)
        total[: len(amounts)] = amounts
        for level in range(self.depth - 1, -1, -1):
            left = total[::2]
            total = left + total[1::2]
            self._aim(np.arange(1 << level, 2 << level), left, total)
        self._split_all()

    # --- learning ------------------------------------------------------------------------------------------------

    def teach(self, leaves: NDArray[np.int64], changed: NDArray[np.bool_], rng: np.random.Generator) -> None:
        """Updates the automata above each polled leaf (`climb`), in order, by whether the poll found a change."""
        on_reward, on_penalty = UPDATING[self.settings.updating]
        draws = rng.random((len(leaves), self.depth)).tolist()
        for leaf, reward, chances in zip(leaves.tolist(), changed.tolist(), draws, strict=True):
            if on_reward if reward else on_penalty:
                self._teach_way(leaf, reward, chances)

    def _teach_way(self, leaf: int, reward: bool, draws: list[float]) -> None:
        states, part, count, resolution = self._states, self._part, self._count, self._resolution
        exponent, node = self.settings.exponent, leaf + self.capacity
        stops = self.settings.climb == "until-failure"
        for draw in draws:
            if count[node ^ 1]:
                above = node >> 1
                state = states[above]
                share = part[above << 1]
                if stops and fails(share, first=not node & 1, draw=draw):
                    return
                moved = next_state(state, resolution[above], share, first=not node & 1, reward=reward, draw=draw)
                if moved != state:
                    states[above] = moved
                    share = shares(moved, resolution[above], exponent)
                    part[above << 1], part[(above << 1) + 1] = share, 1.0 - share
            node >>= 1

    # --- storage -------------------------------------------------------------------------------------------------

    def restore(self, states: NDArray[np.int64], occupied: NDArray[np.bool_]) -> None:
        """Restores `states` int64[capacity] and occupied leaves. Raises InvalidValueError for states out of range."""
        size = len(occupied)
        if len(states) != size or size < 2 or size & (size - 1):
            raise InvalidValueError("shared_state", "a tree of 2^k leaves", (len(states), size))
        allowed = self._resolutions(size)
        if (states[1:] < 1).any() or (states[1:] > allowed[1:]).any():
            raise InvalidValueError("shared_state", "states within their resolution", "others")
        self._lay_out(states.copy(), occupied)
