"""The index under a belief about the rate, a mixture over rates, and the optimal split of a budget under it.

A site polled every τ has the expected value `E[A(λ) (1 - e^{-r τ})] / τ` over the belief, and the value of one more
poll per second is the expectation of the index (theory.md 1), which rises with τ like the index itself. Plugging in a
single rate would overestimate the value: both are concave in it.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.crossing_times import CrossingTimes
from pollerd.allocation.core.index import amplitude_and_rate, g, share_out

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
                found = self._amplitude[some] @ g(self._rate[0][:, None] * gaps)
            else:
                found = self._amplitude[some] * g(self._rate[some] * gaps)
            out[some] = found / self._cost[some, None]
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
            found = (self._amplitude[some] * -np.expm1(-rate * gap[:, None])).sum(1) / gap
            total += float(found.sum(where=polled))
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
