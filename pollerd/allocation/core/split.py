"""The periods at which an allocator would poll many sites at any budget, within what sites and their hosts allow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import share_out
from pollerd.allocation.core.objectives.priced_sites import LevelTimes, PricedSites

Level = float | NDArray[np.float64]
_LEAST_PERIOD_S = 1e-200
_SPENT_UP_TO = 1e-6
_HOST_STEPS = 40
"""Halvings of the interval in which the level of a host is searched: to a part in 10^10 of 100 e-folds."""
_WIDER, _BEYOND = 30.0, 1e-4
"""Logarithms by which a level may lie below the table, for an ample budget, and above it, for float32."""
_PER_CYCLE = 50.0
"""Logarithm by which a level of shares may differ from the current cycle."""


@dataclass(frozen=True)
class Preference:
    """How often an allocator wants to poll each of k sites, compared with others.

    at: takes a level, for all or float64[k] one for each; returns float64[k] s, periods that never shrink with it.
    """

    at: Callable[[Level], NDArray[np.float64]]
    lowest: float
    highest: float
    starvation: float = math.inf
    """Divided by the budget, the seconds after which it polls a site whatever the level; inf: there are none."""


def by_price(mixture: PricedSites) -> Preference:
    """Returns the preference of a policy that polls a site when its index under the belief reaches the price.

    The level is the logarithm of the price.
    """
    return by_urgency(mixture.crossings)


def by_urgency(crossings: LevelTimes, starvation: float = math.inf) -> Preference:
    """Returns the preference of a policy that polls the site with the largest urgency, from a table of urgencies.

    The level is the logarithm of an urgency, for an index policy of the price. starvation: as in `Preference`.
    """
    low, high = crossings.range
    return Preference(crossings.at, low - _WIDER, high + _BEYOND, starvation)


def by_shares(shares: NDArray[np.float64]) -> Preference:
    """Returns the preference of a policy with frequencies float64[k] >= 0, up to a factor."""
    with np.errstate(divide="ignore"):
        usual = float(shares.sum()) / shares

    def at(level: Level) -> NDArray[np.float64]:
        return np.asarray(np.exp(level) * usual)

    return Preference(at, -_PER_CYCLE, _PER_CYCLE)


@dataclass(frozen=True)
class PeriodBounds:
    """What sites and hosts allow, whatever the budget.

    shortest, longest: float64[k] s, bounds of the period, the first one goes first; capped: bool[k], sites whose period
    is at least the uniform cycle. host: int64[k], from 0; capacity: float64[h] > 0, polls per second that each host
    allows these rows together.
    """

    shortest: NDArray[np.float64]
    longest: NDArray[np.float64]
    capped: NDArray[np.bool_]
    host: NDArray[np.int64]
    capacity: NDArray[np.float64]

    def own(self, cycle: float) -> NDArray[np.float64]:
        """Returns the shortest periods float64[k] s, > 0, where round robin takes `cycle` s; hosts do not count."""
        own = np.where(self.capped, np.maximum(self.shortest, cycle), self.shortest)
        return np.maximum(own, _LEAST_PERIOD_S)


class Split:
    """Divides budgets among k rows, each of which stands for a number of like sites.

    At the best split all sites are polled at one level of the preference. A host that allows fewer polls than that has
    a higher level of its own, at which its sites use up what it allows: of its sites, too, the most urgent go first.

    cost float64[k] > 0 of a poll; sites float64[k]: how many each row stands for.
    """

    def __init__(
        self, preference: Preference, bounds: PeriodBounds, cost: NDArray[np.float64], sites: NDArray[np.float64]
    ) -> None:
        self._preference, self._bounds = preference, bounds
        self._cost = cost * sites
        self._without_cycle: NDArray[np.float64] | None = None

    def periods(self, budget: float) -> NDArray[np.float64]:
        """Returns the periods float64[k] s at a budget in cost per second, > 0; inf: never polled."""
        floor = self._floors(float(self._cost.sum()) / budget)
        longest = np.minimum(self._bounds.longest, self._preference.starvation / budget)
        lowest, highest = self._preference.lowest, self._preference.highest

        def at(level: float) -> NDArray[np.float64]:
            return np.maximum(np.minimum(self._preference.at(level), longest), floor)

        every = at(lowest)
        if self.spending(every) <= budget:
            return every
        _, every = share_out(budget, self._cost, at, (lowest, highest), _SPENT_UP_TO)
        # longest periods that the budget does not hold: what is late goes first, so all get later alike
        return np.asarray(every * max(self.spending(every) / budget, 1.0))

    def unlimited(self) -> NDArray[np.float64]:
        """Returns the periods float64[k] s if polls cost nothing; inf: never polled whatever the budget."""
        floor = self._floors(0.0)
        return floor if self._preference.starvation < math.inf else self._at(self._preference.lowest, floor)

    def spending(self, periods: NDArray[np.float64]) -> float:
        """Returns the cost per second of these periods, float64[k] s."""
        return float((self._cost / periods).sum())

    def _at(self, level: Level, floor: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(np.minimum(self._preference.at(level), self._bounds.longest), floor)

    def _floors(self, cycle: float) -> NDArray[np.float64]:
        """Returns the shortest periods float64[k] s by sites and hosts, where round robin takes `cycle` s."""
        if self._bounds.capped.any():
            return self._shared(self._bounds.own(cycle))
        if self._without_cycle is None:
            self._without_cycle = self._shared(self._bounds.own(0.0))
        return self._without_cycle

    def _shared(self, floor: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the periods float64[k] s by which the sites of each crowded host use up what it allows; else floor.

        The level of each host is searched, of all hosts at once.
        """
        host, capacity = self._bounds.host, self._bounds.capacity
        low, high = (np.full(len(capacity), end) for end in (self._preference.lowest, self._preference.highest))
        crowded = self._load(self._at(low[host], floor)) > capacity
        if not crowded.any():
            return floor
        for _ in range(_HOST_STEPS):
            middle = (low + high) / 2
            over = self._load(self._at(middle[host], floor)) > capacity
            low, high = np.where(over, middle, low), np.where(over, high, middle)
        often, seldom = (self._at(level[host], floor) for level in (low, high))
        most, least = self._load(often), self._load(seldom)
        with np.errstate(divide="ignore", invalid="ignore"):
            # where the load jumps between both sides, its sites are polled in proportion; longest periods give way
            part = np.where(most > least, np.clip((capacity - least) / (most - least), 0.0, 1.0), 1.0)[host]
            every = 1.0 / (1.0 / seldom + part * (1.0 / often - 1.0 / seldom))
        every = every * np.maximum(self._load(every) / capacity, 1.0)[host]
        return np.where(crowded[host], every, floor)

    def _load(self, periods: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the polls per second of each host, float64[h], at these periods float64[k] s."""
        return np.asarray(np.bincount(self._bounds.host, 1.0 / periods, len(self._bounds.capacity)), np.float64)
