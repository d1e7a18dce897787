"""The best split of a budget under `delay` or `deadline`, for sites whose mean rates are known or believed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import share_out
from pollerd.allocation.core.objectives.timeliness import (
    deadline_periods,
    deadline_value,
    delay_periods,
    delay_value,
)

Array = NDArray[np.float64]
_SPENT_UP_TO = 1e-10
_LOGARITHMS = (-690.0, 690.0)
"""Logarithms of the prices between which the price is searched: those of floats."""
_SHORTEST_S = 1e-200


class TimelySites:
    """Sites whose indices under `delay`, or `deadline` if there are deadlines, reach a price.

    weighted_rate float64[k] = w λ >= 0 per second; cost float64[k] > 0; floor float64[k] s >= 0: the shortest periods
    allowed; deadline float64[k] s > 0, None for `delay`.
    """

    range = _LOGARITHMS
    """Logarithms between which levels are."""

    def __init__(self, weighted_rate: Array, cost: Array, floor: Array, deadline: Array | None = None) -> None:
        self._weighted_rate, self._cost, self._floor, self._deadline = weighted_rate, cost, floor, deadline

    @property
    def crossings(self) -> TimelySites:
        """When the index of each site reaches a level, without floors."""
        return self

    def at(self, log_level: float | Array) -> Array:
        """Returns float64[k] s: when each index reaches the level with this logarithm; inf: never.

        log_level: of all sites, or float64[k] of each.
        """
        level = np.exp(np.clip(log_level, *_LOGARITHMS))
        if self._deadline is None:
            return delay_periods(level, self._weighted_rate, self._cost)
        return deadline_periods(level, self._weighted_rate, self._cost, self._deadline)

    def value(self, period: Array) -> float:
        """Returns the value per second when each site is polled every `period` float64[k] s; inf: never.

        Under `delay` it is below 0: minus the weighted number of changes that wait at a time.
        """
        if self._deadline is None:
            return float(delay_value(period, self._weighted_rate).sum())
        return float(deadline_value(period, self._weighted_rate, self._deadline).sum())

    def periods(self, price: float) -> Array:
        """Returns seconds float64[k] between polls at price θ; inf: never."""
        return np.maximum(self.at(math.log(price)), self._floor) if price > 0 else self._unbounded()

    def split(self, budget: float) -> tuple[float, Array]:
        """Returns the price θ at which the budget (cost per second, > 0) is spent, and the periods float64[k] s.

        θ is 0 if the budget cannot be spent with gain. Where spending jumps at θ, because sites have the same index,
        these are polled in proportion, so that all is spent.
        """
        every = self._unbounded()
        if float((self._cost / every).sum()) <= budget:
            return 0.0, every
        level, every = share_out(
            budget, self._cost, lambda x: np.maximum(self.at(x), self._floor), _LOGARITHMS, _SPENT_UP_TO
        )
        return math.exp(level), np.maximum(every, self._floor)

    def _unbounded(self) -> Array:
        """Returns the periods if polls cost nothing: as short as there is gain."""
        shortest = _SHORTEST_S if self._deadline is None else self._deadline
        return np.where(self._weighted_rate > 0, np.maximum(self._floor, shortest), np.inf)
