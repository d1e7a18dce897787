"""Twofold Resource Allocation Automaton: one state that splits an amount in two ([A] 3.1, rules (1) to (3)).

The state s in 1..N gives material 1 the share `(s / (N + 1))^exponent` and material 2 the rest: never nothing, never
all. After an access of material 1 the state moves with the probability of material 2's share, and vice versa, which
corrects for the feedback that the more accessed material gets more often ([A] (4), (5)). A reward moves towards the
accessed material, a penalty away from it, with the same probability. A feedback costs O(1) per automaton updated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.validation import between, one_of, positive, put, whole
from pollerd.errors import InvalidValueError

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
