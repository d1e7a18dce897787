"""The objectives `delay` and `deadline`, about how soon changes are found: index, periods, values and best splits.

A change waits for the next poll of its page. Under `delay` it costs the seconds that it waits, under `deadline` it
counts if it waits no longer than D (docs/objectives.md). With R(τ) the value of a poll after a gap of τ, less what
waiting cost, the index is R(τ) - τ R'(τ) per cost, as for the other objectives:

    delay      R = -w λ τ² / 2           index = (w λ / C) τ² / 2
    deadline   R = w λ min(τ, D)         index = (w λ D / C) [τ >= D], where [] is 1 if true, else 0

Both are linear in λ: under a belief the mean rate takes its place. `weighted_rate` is w λ everywhere here, per second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.index import Mixture, share_out, typical_rates
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, TIMELY
from pollerd.shown import SHOWN

Array = NDArray[np.float64]
LONGEST_PERIOD_S = 1e12
"""Period for which a site that is never polled counts under `delay`: else its cost would be infinite."""
CLOCK_ERROR_S = 1e-6
"""Differences of epoch seconds are exact to less: a gap shorter than a deadline by this has reached it."""


def delay_index(gap: Array, weighted_rate: Array) -> Array:
    """Returns the index under `delay` for cost 1, of gaps in s >= 0; shapes that broadcast."""
    return np.asarray(weighted_rate * (0.5 * gap * gap))


def deadline_index(gap: Array, weighted_rate: Array, deadline: Array) -> Array:
    """Returns the index under `deadline` for cost 1, of gaps and deadlines in s; shapes that broadcast."""
    return np.where(gap + CLOCK_ERROR_S >= deadline, weighted_rate * deadline, 0.0)


def delay_periods(price: float | Array, weighted_rate: Array, cost: Array) -> Array:
    """Returns the periods in s at which the index reaches the price θ, > 0: sqrt(2 θ C / (w λ)); inf where w λ = 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(
            weighted_rate > 0, np.sqrt(2.0 * price * cost / np.where(weighted_rate > 0, weighted_rate, 1.0)), np.inf
        )


def deadline_periods(price: float | Array, weighted_rate: Array, cost: Array, deadline: Array) -> Array:
    """Returns the periods in s at which the index reaches the price θ, > 0: the deadline, or inf: it never does."""
    return np.where((weighted_rate > 0) & (weighted_rate * deadline >= price * cost), deadline, np.inf)


def delay_value(period: Array, weighted_rate: Array) -> Array:
    """Returns minus the weighted number of changes that wait at a time, which is the cost of delay per second.

    period in s, inf: never. Little's law: λ changes a second wait half a period each.
    """
    return np.asarray(-0.5 * weighted_rate * np.minimum(period, LONGEST_PERIOD_S))


def deadline_value(period: Array, weighted_rate: Array, deadline: Array) -> Array:
    """Returns the weighted number of changes per second that are found in time; period in s, inf: never."""
    with np.errstate(divide="ignore"):
        return np.asarray(weighted_rate * np.minimum(deadline / period, 1.0))


# The best split of a budget under `delay` or `deadline`, for sites whose mean rates are known or estimated.

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


# Expected delays at given periods, under the present belief.


@dataclass(frozen=True, slots=True)
class ComparedPolicies:
    """One figure for polling as scheduled, round robin, and the best possible; None: none of them is known."""

    __pydantic_config__ = SHOWN
    as_scheduled: float | None
    uniform: float | None
    best: float | None


@dataclass(frozen=True, slots=True)
class Timeliness:
    """How soon changes are found under the present belief, over all expected changes, by the weights of their sites."""

    __pydantic_config__ = SHOWN
    delay: ComparedPolicies
    """Mean seconds from a change to its detection; None where a site that changes is never polled."""
    in_time: ComparedPolicies
    """Share that is found within the sites' deadlines."""


@dataclass(frozen=True, slots=True)
class ExpectedTimeliness(Timeliness):
    """Timeliness with its weight among those of several nodes."""

    changes: float
    """Weighted changes per second, over which the figures are means."""


def timeliness(
    belief: tuple[Array, Array], weight: Array, deadline: Array, periods: tuple[Array, Array, Array]
) -> ExpectedTimeliness | None:
    """Returns the figures at three sets of periods float64[k] s, as in `ComparedPolicies`; None without changes.

    belief: of `Allocator.belief_of`; weight, deadline (s): float64[k]. A site's changes are counted by the median of
    its rate, as in plans.
    """
    changes = weight * np.nan_to_num(typical_rates(belief))
    total = float(changes.sum())
    if not total > 0:
        return None
    never = [bool(np.isinf(every[changes > 0]).any()) for every in periods]
    delays = [float(-delay_value(every, changes).sum()) / total for every in periods]
    shares = [float(deadline_value(every, changes, deadline).sum()) / total for every in periods]
    delay = (None if is_never else value for is_never, value in zip(never, delays, strict=True))
    return ExpectedTimeliness(ComparedPolicies(*delay), ComparedPolicies(*shares), total)


# Sites that are polled when their index reaches a price, under any objective.


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


def deadlines(own_deadline: Array, usual: float = DEFAULT_DEADLINE_S) -> Array:
    """Returns deadlines in s, with the usual one for nan, any shape."""
    return np.where(np.isnan(own_deadline), usual, own_deadline)


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
    own_deadline = np.full(len(weight), np.nan) if deadline is None else deadline
    return TimelySites(weight * mean, cost, floor, deadlines(own_deadline) if objective == "deadline" else None)
