"""A hierarchy of twofold resource allocation automata (TRAA), a balanced binary tree of sites, and choices from it.

Leaves are sites, and a node splits its amount between its two halves ([A] 3.2). Nodes are numbered as in a heap: 1 is
the root, 2v and 2v + 1 are the children of v, leaf i is node capacity + i. An empty leaf is [A]'s material of value
zero: its amount is 0, and its sibling gets everything.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots import NEVER_POLLED_S, SAME_S, between, finite, one_of, positive, put, top, whole
from pollerd.errors import InvalidValueError

# Twofold Resource Allocation Automaton: one state that splits an amount in two ([A] 3.1, rules (1) to (3)).
#
# The state s in 1..N gives material 1 the share `(s / (N + 1))^exponent` and material 2 the rest: never nothing, never
# all. After an access of material 1 the state moves with the probability of material 2's share, and vice versa, which
# corrects for the feedback that the more accessed material gets more often ([A] (4), (5)). A reward moves towards the
# accessed material, a penalty away from it, with the same probability. A feedback costs O(1) per automaton updated.

UPDATING = {
    "reward-penalty": (True, True),
    "reward-inaction": (True, False),
    "inaction-penalty": (False, True),
}
"""Name -> whether it learns from rewards (a change was found), from penalties (none was found)."""
CLIMBS = ("all", "until-failure")


@dataclass(frozen=True)
class TraaSettings:
    """How automata learn.

    resolution: states N of the automata right above the leaves, 2 to 100,000. updating: one of `UPDATING`. exponent: >
    0, at most 10; 1 spaces the shares evenly ([A]'s λ). growth: N of a level over N of the level below, 1 to 2 ([A]
    4.3.3 doubles it if neighbours in the tree are unrelated). climb: one of `CLIMBS`: updates all automata above a
    polled leaf, as in [A], or those up to the first whose draw fails, as in [B] 5.2.
    """

    resolution: int = 500
    updating: str = "reward-penalty"
    exponent: float = 1.0
    growth: float = 1.0
    climb: str = "all"

    def __post_init__(self) -> None:
        resolution = whole("resolution", self.resolution, 2, 100_000)
        exponent, growth = positive("exponent", self.exponent), between("growth", self.growth, 1, 2)
        if exponent > 10:
            raise InvalidValueError("exponent", "above 0, at most 10", self.exponent)
        one_of("updating", self.updating, UPDATING)
        one_of("climb", self.climb, CLIMBS)
        put(self, resolution=resolution, exponent=exponent, growth=growth)


def shares(states: Any, resolution: Any, exponent: float) -> Any:
    """Returns material 1's share for states 1..resolution, elementwise; 0 < share < 1."""
    return (states / (resolution + 1)) ** exponent


def nearest_states(
    target: NDArray[np.float64],
    resolution: NDArray[np.int64],
    exponent: float,
    draws: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Returns the states whose share is nearest to `target` float64[m] in [0, 1]: int64[m] in 1..resolution.

    With `draws` float64[m] from [0, 1) the rounding is random, so that many small steps are not lost.
    """
    exact = target ** (1.0 / exponent) * (resolution + 1)
    rounded = np.rint(exact) if draws is None else np.floor(exact + draws)
    return np.asarray(np.clip(rounded, 1, resolution), np.int64)


def fails(share: float, *, first: bool, draw: float) -> bool:
    """Returns whether the draw leaves the state as it is: it moves with chance 1 - share (material 1) or share (2)."""
    return draw > (1.0 - share if first else share)


def next_state(state: int, resolution: int, share: float, *, first: bool, reward: bool, draw: float) -> int:
    """Returns the state after one feedback on material 1 (`first`) or 2; draw from [0, 1) ([A] (1) to (3))."""
    if fails(share, first=first, draw=draw):
        return state
    moved = state + (1 if first == reward else -1)
    return moved if 1 <= moved <= resolution else state


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
        aimed = nodes[choice]
        target = np.clip(left[choice] / both[choice], 0.0, 1.0)
        draws = None if rng is None else rng.random(len(aimed))
        self.states[aimed] = nearest_states(target, self.resolution[aimed], self.settings.exponent, draws)

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


# Kinetic tournament: finds the leaf with the largest `amount x seconds since its last poll` in O(log n) a choice.
#
# Every leaf's urgency is a line in time, `x_i (t - last_i)`. If it is polled whenever it reaches the common level, a
# leaf is polled at frequency x_i. That is not earliest deadline first, which [A] 3.1.1 has: there, a moved amount would
# move the deadline of every leaf. At fixed amounts both find the same (`pollerd reproduce htraa-schedulers`). When an
# automaton moves, all leaves on one side of it change by one factor, so the leader on that side stays the same: only
# the nodes above a polled leaf are recomputed. Each node stores the leader below it, and how long it leads, because a
# steeper line may overtake it.

_FEW_PATHS = 8
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
        if len(leaves) <= _FEW_PATHS:
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


# Choice from a hierarchy under eligibility: a tournament of the eligible leaves, and a pool of waiting ones.

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
        most_urgent = self._look(elapsed, credit, now, eligible, k)
        return None if most_urgent is None else np.asarray(np.concatenate([self._slot[fresh], most_urgent]), np.int64)

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
        current: list[int] = []
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
                current.append(leaf)
            looks -= 1
            if len(current) == k or not looks:
                break
        out = np.asarray(self._slot[current + moved], np.int64)
        if moved:
            slots = self._slot[moved]
            self._tournament.enter(np.array(moved), now - finite(elapsed[slots]) - credit[slots])
        if barred:
            self._tournament.leave(np.array(barred))
            self._waiting = np.concatenate([self._waiting, barred])
        return None if not looks and len(current) < k else out
