"""The budget by which a share of all changes is learned of in time, and why none may do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.delays import Delays
from pollerd.allocation.core.split import Split

_NEAR_ENOUGH = 1e-3
"""Logarithm to which the budget is searched."""
_SLACK = 1e-9
"""Share by which the goal may be missed, for rounding."""


@dataclass(frozen=True)
class Goal:
    """To learn of a share, above 0 and below 1, of all changes within so many seconds, > 0."""

    share: float
    within: float


@dataclass(frozen=True)
class PlannedPeriods:
    """What a budget brings, and what would bring the goal."""

    now: NDArray[np.float64]
    """float64[k] s: periods at the budget asked about."""
    unlimited: NDArray[np.float64]
    """float64[k] s: if polls cost nothing."""
    needed: float | None
    """Cost per second by which the goal is reached; None: no budget in the range does."""


def plan(
    split: Split, changes: NDArray[np.float64], goal: Goal, budget: float, allowed: tuple[float, float]
) -> PlannedPeriods:
    """Returns the periods at a budget, and the smallest allowed budget by which the goal is reached.

    changes: float64[k], expected changes per second of what each row of the split stands for; allowed: smallest and
    largest budget, > 0. The share rises with the budget: a larger one polls no site less often, but for those that
    share a crowded host with sites held to the uniform cycle.
    """

    def reached(periods: NDArray[np.float64]) -> bool:
        return Delays(periods, changes).share(goal.within) >= goal.share - _SLACK

    unlimited = split.unlimited()
    needed = None
    if reached(unlimited) and reached(split.periods(allowed[1])):
        needed = allowed[0] if reached(split.periods(allowed[0])) else _first(reached, split, allowed)
    return PlannedPeriods(split.periods(budget), unlimited, needed)


def _first(reached: Callable[[NDArray[np.float64]], bool], split: Split, allowed: tuple[float, float]) -> float:
    """Returns the smallest budget whose periods reach the goal; the smallest allowed one does not, the largest does."""
    low, high = (math.log(end) for end in allowed)
    while high - low > _NEAR_ENOUGH:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(split.periods(math.exp(middle))) else (middle, high)
    return math.exp(high)
