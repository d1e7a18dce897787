"""Periods at which an allocator would poll each site at any budget, within the limits of sites and hosts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.index import CrossingTimes, Delays, share_out
from pollerd.allocation.objectives import LevelTimes, PricedSites

Level = float | NDArray[np.float64]
_MIN_PERIOD_S = 1e-200
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
        return np.maximum(own, _MIN_PERIOD_S)


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

    def within(self, bounds: PeriodBounds) -> Split:
        """Returns the same split within other bounds."""
        return Split(self._preference, bounds, self._cost, np.ones(len(self._cost)))

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


# Periods without the limits of hosts.

_CYCLES = 1e4
"""Gaps from a uniform cycle divided by this to a uniform cycle times this are tabulated."""
_COLUMNS = 64
_SPENT_CLOSELY = 1e-7


def gaps_around(cycle: float, most: float = math.inf, jumps: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Returns gaps in s, ascending, at which a table has urgencies, up to `most`; cycle: the uniform cycle, s.

    jumps: further gaps float64[m] s, of `Allocator.urgency_jumps`; those beyond the others stay out.
    """
    shortest = cycle / _CYCLES
    gaps = np.geomspace(shortest, max(min(cycle * _CYCLES, most), 2 * shortest), _COLUMNS)
    if jumps is None or not len(jumps):
        return gaps
    return np.unique(np.concatenate([gaps, jumps[(jumps > gaps[0]) & (jumps < gaps[-1])]]))


def desired_periods(
    allocator: Allocator,
    slots: NDArray[np.int64],
    cost: NDArray[np.float64],
    floor: NDArray[np.float64],
    budget: float,
    now: float,
) -> NDArray[np.float64]:
    """Returns seconds float64[k] between polls of slots int64[k] at a budget (cost per second) for these; inf: never.

    cost float64[k] > 0; floor float64[k] s: the shortest periods allowed. If the policy has `shares`, they are its
    frequencies. Else it polls the site with the largest urgency, so with its learned state fixed each site is polled
    when its urgency reaches one common level: the level at which the budget is spent.
    """
    if not len(slots):
        return np.empty(0)
    shares = allocator.shares(slots)
    cycle = float(cost.sum()) / budget
    if shares is None:
        gaps = gaps_around(cycle, jumps=allocator.urgency_jumps)
        urgency = [allocator.urgency_of(slots, np.full(len(slots), gap), now) for gap in gaps]
        crossings = CrossingTimes(gaps, np.fmax(np.stack(urgency, axis=1), 0.0))
        low, high = crossings.range
        at = crossings.at
    else:
        with np.errstate(divide="ignore"):
            usual = 1.0 / shares
        low = high = float(np.log(cycle))

        def at(log_level: float | NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.exp(log_level) * usual)

    within = (low - _WIDER, high + (_BEYOND if shares is None else _WIDER))
    _, every = share_out(budget, cost, lambda x: np.maximum(at(x), floor), within, _SPENT_CLOSELY)
    return np.maximum(every, floor)


# Plans: the smallest budget by which a share of all changes is found in time.

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
