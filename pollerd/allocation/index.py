"""The index of all objectives, of one rate and under a belief about it, and the shadow price of the best split.

`index(τ) = (A / C) g(r τ)` is the value of one more poll per second of a site at gap τ since its last poll, with
amplitude A, cost C and rate r (docs/model.md, "Choosing"; [E] theorem 1). At the optimal split all sites are polled
when their index reaches the price θ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.registered import G_OBJECTIVES
from pollerd.errors import InvalidValueError

DEFAULT_HALF_LIFE_S = 86_400.0
"""Default half-life for `interest`: news loses half its value in a day."""

_NARROW = 0.5
"""Width of the interval below which the search for the price uses the slope of spending."""
_MAX_FOLLOWED = 18
"""Largest number of such steps."""


def g(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `1 - (1 + z) e^-z` for z >= 0, any shape; rises from 0 to 1. Series below 0.01, to avoid cancellation."""
    z = np.asarray(z, np.float64)
    small = np.minimum(z, 0.01)
    series = small * small * (0.5 - small * (1 / 3 - small * (0.125 - small / 30)))
    capped = np.minimum(z, 700.0)
    return np.where(z < 0.01, series, 1.0 - (1.0 + capped) * np.exp(-capped))


def g_inverse(y: NDArray[np.float64], complement: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Returns the z >= 0 with g(z) = y, for 0 <= y; inf where y >= 1. Newton's method in log z; error < 1e-10 of z.

    complement is 1 - y, for callers that know it more precisely than the subtraction would give it.
    """
    y = np.asarray(y, np.float64)
    rest = 1.0 - y if complement is None else np.asarray(complement, np.float64)
    low = y < 0.26
    below, above = np.clip(np.where(low, y, 0.1), 1e-300, None), np.clip(np.where(low, 0.5, rest), 1e-300, 1.0)
    root, tail = np.sqrt(2 * below), -np.log(above)
    z = np.where(low, root * (1 + root / 3), tail + np.log1p(tail) + 0.3)
    for _ in range(40):
        # low branch: compares g with y; high branch: compares log(1 - g) with log(1 - y), precise as y nears 1
        with np.errstate(over="ignore"):
            down = (g(z) - below) / np.maximum(z * z * np.exp(-np.minimum(z, 700.0)), 1e-320)
        step = np.clip(np.where(low, down, (z - np.log1p(z) - tail) * (1 + z) / (z * z)), -1.0, 1.0)
        z = z * np.exp(-step)
        if np.max(np.abs(step), initial=0.0) < 1e-13:
            break
    return np.where(rest <= 0, np.inf, np.where(y <= 0, 0.0, z))


def amplitude_and_rate(
    objective: str,
    rates: NDArray[np.float64],
    weight: NDArray[np.float64],
    half_life: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns A and r of the index for each site (table in docs/model.md), float64[n] each, or of broadcastable shapes.

    rates: estimated changes per second >= 0; half_life in s, nan: the default. For `interest` the arrival rate is part
    of the amplitude, g uses the decay μ = ln 2 / half_life, and the weight is the mean value of an item.
    """
    if objective == "changes":
        return weight, rates
    if objective == "freshness":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(rates > 0, weight / rates, 0.0), rates
    if objective == "interest":
        decay = decay_rates(half_life)
        return weight * rates / decay, decay
    raise InvalidValueError("objective", f"one of {', '.join(G_OBJECTIVES)}", objective)


def decay_rates(half_life: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the decay rates μ of interest, 1/s, for half-lives in s, nan: the default; float64 of the same shape."""
    return np.asarray(math.log(2) / np.where(np.isnan(half_life), DEFAULT_HALF_LIFE_S, half_life))


def index(
    elapsed: NDArray[np.float64],
    amplitude: NDArray[np.float64],
    rate: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns `(A / C) g(r τ)`, float64[n]; elapsed τ in s >= 0."""
    return amplitude / cost * g(rate * elapsed)


def periods(
    price: float,
    amplitude: NDArray[np.float64],
    rate: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns the seconds between polls of each site at price θ: `g⁻¹(θ C / A) / r`, inf where θ C >= A or r = 0."""
    alive = (amplitude > 0) & (rate > 0)
    share = np.where(alive, price * cost / np.where(alive, amplitude, 1.0), 1.0)
    return np.where(alive, g_inverse(share) / np.where(alive, rate, 1.0), np.inf)


def solve_price(
    budget: float,
    amplitude: NDArray[np.float64],
    rate: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64]]:
    """Returns the price θ with `Σ C / period(θ) = budget`, and the periods float64[n] in s; (0, inf) without any value.

    Searches the logit of θ / max(A / C): with a tight budget θ is so near that maximum that θ itself lacks digits.
    """
    alive = (amplitude > 0) & (rate > 0)
    value_per_cost = np.where(alive, amplitude / cost, 0.0)
    top = float(value_per_cost.max(initial=0.0))
    if top <= 0:
        return 0.0, np.full(len(value_per_cost), np.inf)
    scaled = top / np.where(alive, value_per_cost, 1.0)
    logit, every = share_out(budget, cost, lambda x: _periods_at(x, scaled, alive, rate), (-690.0, 690.0))
    return top / (1.0 + math.exp(-logit)), every


def share_out(
    budget: float,
    cost: NDArray[np.float64],
    periods_at: Callable[[float], NDArray[np.float64]],
    within: tuple[float, float],
    error: float = 1e-14,
) -> tuple[float, NDArray[np.float64]]:
    """Returns the x with `Σ C / periods_at(x) = budget`, within a share `error` of it, and the periods float64[n] s.

    Spending must fall with x; if it does not reach the budget between the two ends, returns the nearer end.
    """
    low, high = _bracket(budget, lambda x: float((cost / periods_at(x)).sum()), within, error)
    # at the price where the last site enters, spending may jump within one bit of x: interpolate between both sides
    often, seldom = (1.0 / periods_at(x) for x in (low, high))
    most, least = float(cost @ often), float(cost @ seldom)
    part = (budget - least) / (most - least) if most > least else 1.0
    with np.errstate(divide="ignore"):
        return (low + high) / 2, 1.0 / (seldom + min(max(part, 0.0), 1.0) * (often - seldom))


def _bracket(
    budget: float, spending: Callable[[float], float], within: tuple[float, float], error: float
) -> tuple[float, float]:
    """Returns the ends of a very narrow interval in which `spending` falls through the budget.

    Bisection while it is wide, then regula falsi with the Illinois rule, which needs a fifth of the evaluations;
    bisection again if spending jumps, because there is no slope to use.
    """
    (low, high), at_low, at_high, last, followed = within, 1.0, -1.0, 0, 0
    for _ in range(120):
        x = (low + high) / 2
        if high - low < _NARROW and followed < _MAX_FOLLOWED:
            followed += 1
            x = min(max((low * at_high - high * at_low) / (at_high - at_low), low), high)
        spent = spending(x)
        excess = (spent - budget) / (spent + budget)
        if abs(excess) < error:
            return x, x
        if excess > 0:
            low, at_low, at_high, last = x, excess, at_high / (2 if last > 0 else 1), 1
        else:
            high, at_high, at_low, last = x, excess, at_low / (2 if last < 0 else 1), -1
        if high - low <= 1e-15 * max(1.0, abs(x)):
            break
    return low, high


def _periods_at(
    logit: float, scaled: NDArray[np.float64], alive: NDArray[np.bool_], rate: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the periods at `θ = top / (1 + e^-logit)`, with scaled = top C / A >= 1."""
    share, rest = 1.0 / (1.0 + math.exp(-logit)), 1.0 / (1.0 + math.exp(logit))
    z = g_inverse(scaled * share, (1.0 - scaled) * share + rest)
    return np.where(alive, z / np.where(alive, rate, 1.0), np.inf)


# Gaps at which functions that rise with the gap reach a level, for many sites at once, from a table.

_LEAST = -700.0
"""Replaces the logarithm of 0."""


class CrossingTimes:
    """Tables of k non-decreasing functions: rows [k, M] of floats over gaps float64[M] s, ascending, M >= 2.

    Each row is replaced by its running maximum. Interpolates linearly in logarithms between gaps and below the first.
    """

    def __init__(self, gaps: NDArray[np.float64], rows: NDArray[np.floating]) -> None:
        with np.errstate(divide="ignore"):
            log_rows = np.fmax(np.log(np.maximum.accumulate(rows, axis=1)), _LEAST)
        self._log_gaps, self._rows = np.log(gaps), log_rows.astype(np.float32)
        self._starts = np.arange(len(rows)) * len(gaps)

    @property
    def range(self) -> tuple[float, float]:
        """Logarithms of a level that all rows which ever rise reach by the first gap, and of the highest level."""
        rising = self._rows[:, 0][self._rows[:, -1] > _LEAST]
        return float(rising.min(initial=0.0)), float(self._rows[:, -1].max(initial=_LEAST))

    def at(self, log_level: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns float64[k] s: when each row reaches the level with this logarithm; inf: never.

        log_level: of all rows, or float64[k] of each.
        """
        last = len(self._log_gaps) - 1
        place = np.minimum(self._below(log_level), last)
        right = np.maximum(place, 1)
        low, high = (self._rows.take(self._starts + column) for column in (right - 1, right))
        with np.errstate(divide="ignore", invalid="ignore"):
            part = (np.asarray(log_level, np.float32) - low) / (high - low)
        part = np.where(np.isfinite(part), part, 0.0)
        left_gap = self._log_gaps[right - 1]
        with np.errstate(over="ignore"):  # of rows that end below the level
            gap = np.exp(left_gap + part * (self._log_gaps[right] - left_gap))
        return np.where(self._rows[:, last] < log_level, np.inf, gap)

    def _below(self, log_level: float | NDArray[np.float64]) -> NDArray[np.int64]:
        """Returns the number of columns of each row below the level, by a binary search in all rows at once."""
        number = self._rows.shape[1]
        below = np.zeros(len(self._rows), np.int64)
        step = 1 << (number.bit_length() - 1)
        while step:
            beyond = below + step
            fits = beyond <= number
            columns = self._starts + np.minimum(beyond, number) - 1
            below = np.where(fits & (self._rows.take(columns) < log_level), beyond, below)
            step >>= 1
        return below


# The index under a belief about the rate, a mixture over rates, and the optimal split of a budget under it.
#
# A site polled every τ has the expected value `E[A(λ) (1 - e^{-r τ})] / τ` over the belief, and the value of one more
# poll per second is the expectation of the index, which rises with τ like the index itself. Plugging in a single rate
# would overestimate the value: both are concave in it.

_SHORTEST, _LONGEST = 1e-3, 60.0
"""Gaps of the table, in units of 1 / the fastest and 1 / the slowest rate: below, g is z² / 2; above, 1."""
_COLUMNS_PER_EFOLD = 5.0
_ROWS_AT_A_TIME = 8_192
_SPENT_UP_TO = 1e-7
"""Share of the budget that may be left over: the price is searched in float32."""
_BEYOND = 1e-4
"""Logarithm by which the upper end of the search exceeds the value of any site, enough for float32."""
_WIDER = 30.0
"""Logarithm by which the price may lie below the table, for an extremely ample budget."""


class Mixture:
    """Computes `index_i(τ) = Σ_j A_ij g(r_j τ) / C_i`, and polls i no sooner than `floor_i` after its last poll.

    amplitude float64[k, J] >= 0; rate float64[1, J], shared, or float64[k, 1]; in 1/s, >= 0.
    cost float64[k] > 0; floor float64[k] s >= 0.
    """

    def __init__(
        self,
        amplitude: NDArray[np.float64],
        rate: NDArray[np.float64],
        cost: NDArray[np.float64],
        floor: NDArray[np.float64],
    ) -> None:
        self._amplitude, self._rate, self._cost, self._floor = amplitude, rate, cost, floor

    @property
    def columns(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Amplitude, rate, cost and floor, as given."""
        return self._amplitude, self._rate, self._cost, self._floor

    @classmethod
    def believed(
        cls,
        belief: tuple[NDArray[np.float64], NDArray[np.float64]],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64],
        floor: NDArray[np.float64],
        objective: str,
    ) -> Mixture:
        """Creates the mixture from `Allocator.belief_of` and settings float64[k] each; nan counts as 0."""
        rates, shares = belief
        known = np.nan_to_num(rates)
        amplitude, rate = amplitude_and_rate(objective, known, weight[:, None], half_life[:, None])
        mixed = shares * amplitude
        if rate.shape[1] == 1:
            mixed = mixed.sum(1, keepdims=True)
        return cls(mixed, rate, cost, floor)

    @cached_property
    def crossings(self) -> CrossingTimes:
        """Table of the gaps at which the index of each site reaches a level, without floors."""
        gaps = _gaps(self._rate)
        return CrossingTimes(gaps, self._index(gaps))

    def _index(self, gaps: NDArray[np.float64]) -> NDArray[np.float32]:
        """Returns the index at gaps float64[M], float32[k, M]."""
        out = np.empty((len(self._cost), len(gaps)), np.float32)
        for at in range(0, len(out), _ROWS_AT_A_TIME):
            some = slice(at, at + _ROWS_AT_A_TIME)
            if len(self._rate) == 1:
                index = self._amplitude[some] @ g(self._rate[0][:, None] * gaps)
            else:
                index = self._amplitude[some] * g(self._rate[some] * gaps)
            out[some] = index / self._cost[some, None]
        return out

    def value(self, period: NDArray[np.float64]) -> float:
        """Returns the expected value per second when each site is polled every `period` float64[k] s; inf: never."""
        total = 0.0
        for at in range(0, len(period), _ROWS_AT_A_TIME):
            some = slice(at, at + _ROWS_AT_A_TIME)
            gap = period[some]
            polled = np.isfinite(gap) & (gap > 0)
            gap = np.where(polled, gap, 1.0)
            rate = self._rate if len(self._rate) == 1 else self._rate[some]
            per_second = (self._amplitude[some] * -np.expm1(-rate * gap[:, None])).sum(1) / gap
            total += float(per_second.sum(where=polled))
        return total

    def periods(self, price: float) -> NDArray[np.float64]:
        """Returns seconds float64[k] between polls at price θ, exact to a share of `_SHORTEST`; inf: never."""
        return self._periods(math.log(price)) if price > 0 else self._unbounded()

    def split(self, budget: float) -> tuple[float, NDArray[np.float64]]:
        """Returns the price θ at which the budget (cost per second, > 0) is spent, and the periods float64[k] s.

        θ is 0 if the floors keep the budget from being spent, or no site has value.
        """
        every = self._unbounded()
        if float((self._cost / every).sum()) <= budget:
            return 0.0, every
        low, high = self.crossings.range
        level, every = share_out(budget, self._cost, self._periods, (low - _WIDER, high + _BEYOND), _SPENT_UP_TO)
        return math.exp(level), np.maximum(every, self._floor)

    def _periods(self, log_price: float) -> NDArray[np.float64]:
        return np.maximum(self.crossings.at(log_price), self._floor)

    def _unbounded(self) -> NDArray[np.float64]:
        """Returns the periods if polls cost nothing: as short as allowed."""
        usable = (self._amplitude > 0).any(1) & (self._rate > 0).any(1)
        return np.where(usable, np.maximum(self._floor, 1e-200), np.inf)


def _gaps(rate: NDArray[np.float64]) -> NDArray[np.float64]:
    moving = rate[rate > 0]
    if not moving.size:
        return np.array([1.0, 2.0])
    shortest, longest = _SHORTEST / float(moving.max()), _LONGEST / float(moving.min())
    columns = 2 + math.ceil(math.log(longest / shortest) * _COLUMNS_PER_EFOLD)
    return np.geomspace(shortest, longest, columns)


# Delays from a change to the poll that finds it, over all changes of sites that are polled at given periods.

_HALF = 0.5


class Delays:
    """Delays from change to detection, of all changes of k sites, also of those that the same poll learns of.

    Changes are Poisson: given that there is one between two polls `period` apart, it may be at any time in between. So
    its delay is uniform from 0 to the period, whatever the rate, and rates only say how many changes are a site's. They
    do not depend on the objective: that decides the periods.

    periods: float64[k] s between two polls, > 0, inf: never; changes: float64[k] >= 0, expected changes of each row per
    second.
    """

    def __init__(self, periods: NDArray[np.float64], changes: NDArray[np.float64]) -> None:
        order = np.argsort(periods)
        self._periods, changes = periods[order], changes[order]
        total = float(changes.sum())
        self._changes = changes / total if total > 0 else np.full(len(changes), math.nan)

    def share(self, within: float) -> float:
        """Returns the share of the changes that is learned of within so many seconds; nan without changes."""
        if not len(self._periods):
            return math.nan
        return float(self._changes @ np.minimum(within / self._periods, 1.0))

    def quantile(self, share: float) -> float:
        """Returns the seconds within which this share of the changes, 0 < share < 1, is learned of.

        inf: so many are never learned of; nan without changes.
        """
        if not len(self._periods) or math.isnan(self._changes[0]):
            return math.nan
        # F(w) rises linearly between periods: the sites with shorter ones count whole, the others at w / period.
        whole = np.concatenate([[0.0], np.cumsum(self._changes)])
        slope = np.append(np.cumsum((self._changes / self._periods)[::-1])[::-1], 0.0)
        finite = int(np.searchsorted(self._periods, math.inf))
        reached = whole[1 : finite + 1] + self._periods[:finite] * slope[1 : finite + 1]
        place = int(np.searchsorted(reached, share))
        if place == finite:
            return math.inf
        return float((share - whole[place]) / slope[place])


def typical_rates(belief: tuple[NDArray[np.float64], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Returns the median of each rate under a belief as returned by `Allocator.belief_of`, float64[k] 1/s.

    nan: no belief. The mean of a belief is mostly the mean of its far tail, kept open for pages that wake up: sums over
    many quiet pages come out too large by a tenth, and shares too small by up to .1 (docs/model.md).
    """
    rates, shares = belief
    if rates.shape[1] == 1:
        return np.asarray(rates[:, 0])
    middle = np.cumsum(shares, axis=1) - _HALF * shares
    right = np.clip((middle < _HALF).sum(1), 1, shares.shape[1] - 1)
    rows = np.arange(len(shares))
    low, high = middle[rows, right - 1], middle[rows, right]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(high > low, (_HALF - low) / (high - low), 0.0)
    logs = np.log(rates[0])
    between = logs[right - 1] + np.clip(part, 0.0, 1.0) * (logs[right] - logs[right - 1])
    return np.where(np.isnan(shares).any(1), math.nan, np.exp(between))
