"""Kinetic tournament: finds the leaf with the largest `amount x seconds since its last poll` in O(log n) a choice.

Every leaf's urgency is a line in time, `x_i (t - last_i)`. If it is polled whenever it reaches the common level, a leaf
is polled at frequency x_i. That is not earliest deadline first, which [A] 3.1.1 has: there, a moved amount would move
the deadline of every leaf. At fixed amounts both find the same (`pollerd reproduce htraa-schedulers`).
When an automaton moves, all leaves on one side of it change by one factor, so the leader on that side stays the same:
only the nodes above a polled leaf are recomputed. Each node stores the leader below it, and how long it leads, because
a steeper line may overtake it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.automata.hierarchy import Hierarchy

_FEW = 8
"""Up to this number of leaves, paths are followed up one by one; more are done level by level, on arrays."""


class Tournament:
    """Participating leaves of a hierarchy and their leaders. Valid for one layout of the tree."""

    def __init__(self, tree: Hierarchy, now: float) -> None:
        self._tree, self.now = tree, now
        size = 2 * tree.capacity
        self._leaders, self._slopes = np.full(size, -1, np.int64), np.ones(size)
        self._untils, self._lasts = np.full(size, np.inf), np.zeros(tree.capacity)
        # Single items are read and written far faster through these memoryviews than through the arrays.
        self._leader: Any = self._leaders.data
        self._slope: Any = self._slopes.data
        self._until: Any = self._untils.data
        self._last: Any = self._lasts.data
        self._part: Any = tree.part.data

    def enter(self, leaves: NDArray[np.int64], last: NDArray[np.float64]) -> None:
        """Enters leaves int64[k], last polled at float64[k] s, or updates the time of their last poll."""
        self._leaders[self._tree.capacity + leaves] = leaves
        self._lasts[leaves] = last
        self.look_again(leaves)

    def leave(self, leaves: NDArray[np.int64]) -> None:
        """Takes leaves int64[k] out."""
        self._leaders[self._tree.capacity + leaves] = -1
        self.look_again(leaves)

    def takes_part(self, leaves: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns which of leaves int64[k] take part, bool[k]."""
        return np.asarray(self._leaders[self._tree.capacity + leaves] >= 0)

    def look_again(self, leaves: NDArray[np.int64]) -> None:
        """Recomputes the leaders above leaves int64[k], after shares, last polls or participation changed."""
        if len(leaves) <= _FEW:
            for leaf in leaves.tolist():
                node = (leaf + self._tree.capacity) >> 1
                while node:
                    self._decide(node)
                    node >>= 1
            return
        nodes = np.sort(leaves, kind="stable") + self._tree.capacity
        for _ in range(self._tree.depth):
            above = nodes >> 1  # sorted, too: equal nodes are adjacent
            nodes = above[np.diff(above, prepend=-1) > 0]
            self._decide_all(nodes)

    def advance(self, now: float) -> None:
        """Advances the time to `now`, which must not go backwards."""
        self.now = now
        self._catch_up(1)

    def _catch_up(self, node: int) -> None:
        if node < self._tree.capacity and self._until[node] <= self.now:
            self._catch_up(2 * node)
            self._catch_up(2 * node + 1)
            self._decide(node)

    def _decide(self, node: int) -> None:
        leader, slope, until, last, part = self._leader, self._slope, self._until, self._last, self._part
        left, right = 2 * node, 2 * node + 1
        a, b = leader[left], leader[right]
        steep_a, steep_b = slope[left] * part[left], slope[right] * part[right]
        if a < 0 or b < 0:
            leader[node], slope[node] = (b, steep_b) if a < 0 else (a, steep_a)
            until[node] = until[right] if a < 0 else until[left]
            return
        margin = steep_a * (self.now - last[a]) - steep_b * (self.now - last[b])
        if margin > 0 or (margin == 0 and steep_a >= steep_b):
            leader[node], slope[node], gain = a, steep_a, steep_b - steep_a
        else:
            leader[node], slope[node], gain, margin = b, steep_b, steep_a - steep_b, -margin
        overtaken = self.now + margin / gain if gain > 0 else math.inf
        until[node] = min(overtaken, until[left], until[right])

    def _decide_all(self, nodes: NDArray[np.int64]) -> None:
        """Recomputes the leaders of nodes int64[k] of one level, as `_decide` does for one."""
        leader, slope, until, last = self._leaders, self._slopes, self._untils, self._lasts
        part = self._tree.part
        left, right = 2 * nodes, 2 * nodes + 1
        a, b = leader[left], leader[right]
        steep_a, steep_b = slope[left] * part[left], slope[right] * part[right]
        margin = steep_a * (self.now - last[a]) - steep_b * (self.now - last[b])
        first = ((margin > 0) | ((margin == 0) & (steep_a >= steep_b)) | (b < 0)) & (a >= 0)
        leader[nodes], slope[nodes] = np.where(first, a, b), np.where(first, steep_a, steep_b)
        gain = np.where(first, steep_b - steep_a, steep_a - steep_b)
        contested = (a >= 0) & (b >= 0) & (gain > 0)
        overtaken = self.now + np.abs(margin) / np.where(contested, gain, 1.0)
        below = np.minimum(until[left], until[right])
        until[nodes] = np.where(contested, np.minimum(overtaken, below), below)

    def ranking(self) -> Iterator[tuple[int, float]]:
        """Yields leaves and their last polls (s), most urgent first, as of `advance`. Nothing may change meanwhile.

        Follows the leader of a node down to its leaf; the siblings of the path are the roots of smaller trees.
        """
        leader, slope, last, part, now = self._leader, self._slope, self._last, self._part, self.now
        size, depth = self._tree.capacity, self._tree.depth
        heap = [(0.0, 1, 1.0)] if leader[1] >= 0 else []
        while heap:
            _, node, amount = heappop(heap)
            leaf = leader[node]
            yield leaf, last[leaf]
            for height in range(depth - node.bit_length(), -1, -1):
                way = (leaf + size) >> height
                aside = way ^ 1
                rival = leader[aside]
                if rival >= 0:
                    above = amount * part[aside]
                    heappush(heap, (above * slope[aside] * (last[rival] - now), aside, above))
                amount *= part[way]
