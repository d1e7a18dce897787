"""Sites that are polled when their index reaches a price, under any objective."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.mixture import Mixture
from pollerd.allocation.core.objectives.timely_sites import TimelySites
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, TIMELY

Array = NDArray[np.float64]


class LevelTimes(Protocol):
    """When each of k sites reaches a level."""

    @property
    def range(self) -> tuple[float, float]:
        """Logarithms of a level that every site reaches soonest, and of the highest level."""

    def at(self, log_level: float | Array) -> Array:
        """Returns float64[k] s: when each reaches the level with this logarithm, of all or of each; inf: never."""


class PricedSites(Protocol):
    """k sites, their indices under a belief, and the shortest periods allowed."""

    @property
    def crossings(self) -> LevelTimes:
        """When the index of each site reaches a level, whatever periods are allowed."""

    def value(self, period: Array) -> float:
        """Returns the expected value per second when each site is polled every `period` float64[k] s; inf: never."""

    def periods(self, price: float) -> Array:
        """Returns seconds float64[k] between polls at price θ; inf: never."""

    def split(self, budget: float) -> tuple[float, Array]:
        """Returns the price θ at which the budget (cost per second, > 0) is spent, and the periods float64[k] s."""


def deadlines(given: Array, usual: float = DEFAULT_DEADLINE_S) -> Array:
    """Returns deadlines in s, with the usual one for nan, any shape."""
    return np.where(np.isnan(given), usual, given)


def priced_sites(
    belief: tuple[Array, Array],
    weight: Array,
    cost: Array,
    half_life: Array,
    floor: Array,
    objective: str,
    deadline: Array | None = None,
) -> PricedSites:
    """Returns the sites for `Allocator.belief_of` and settings float64[k] each; nan rates count as 0.

    deadline: float64[k] s, for the objective `deadline`; nan, or None for all: the default.
    """
    if objective not in TIMELY:
        return Mixture.believed(belief, weight, cost, half_life, floor, objective)
    rates, shares = belief
    mean = (np.nan_to_num(shares) * np.nan_to_num(rates)).sum(1)
    given = np.full(len(weight), np.nan) if deadline is None else deadline
    return TimelySites(weight * mean, cost, floor, deadlines(given) if objective == "deadline" else None)
