"""What the budget brings under the present belief: price, and expected value at the best split, uniform, as run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.benefit import Benefit, expected_benefit, value
from pollerd.allocation.index import amplitude_and_rate
from pollerd.daemon.fleet import Fleet
from pollerd.model import SiteState
from pollerd.scheduling import STATES

_FRESH_SECONDS = 5.0
_SMALL = 5_000
"""Sites up to which the figures are worked out on the spot: a few milliseconds."""


@dataclass(frozen=True)
class Figures:
    """One look ahead. Values are per second; detections for the objective `changes`, weighted."""

    benefit: Benefit
    as_scheduled: float
    """When every site keeps the interval between its last two polls."""


@dataclass(frozen=True)
class _Belief:
    """Copies of the columns that the figures follow from, float64[n] each."""

    rates: NDArray[np.float64]
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    half_life: NDArray[np.float64]
    last_gap: NDArray[np.float64]
    budget: float
    objective: str


class Forecast:
    """Keeps the latest figures. With many sites they are worked out beside the loop, not on it."""

    def __init__(self, fleet: Fleet, objective: Callable[[], str], clock: Callable[[], float]) -> None:
        self._fleet, self._objective, self._clock = fleet, objective, clock
        self._figures: Figures | None = None
        self._at = -math.inf

    async def refresh(self) -> Figures:
        """Works the figures out anew, off the loop."""
        return self._keep(await asyncio.to_thread(_figures, self._belief()))

    def figures(self) -> Figures:
        """The latest figures, worked out anew where that is quick and they are older than a few seconds."""
        stale = self._clock() - self._at > _FRESH_SECONDS
        if self._figures is None or (stale and self._fleet.sites.size <= _SMALL):
            return self._keep(_figures(self._belief()))
        return self._figures

    def _keep(self, figures: Figures) -> Figures:
        self._figures, self._at = figures, self._clock()
        return figures

    def _belief(self) -> _Belief:
        """Rates are nan where a site is not polled at all."""
        sites = self._fleet.sites
        rates = self._fleet.allocator.rates().copy()
        n = len(rates)
        gone = STATES.index(SiteState.GONE)
        rates[sites.paused[:n] | (sites.state[:n] == gone)] = math.nan
        return _Belief(
            rates,
            sites.weight[:n].copy(),
            sites.cost[:n].copy(),
            sites.half_life[:n].copy(),
            sites.last_gap[:n].copy(),
            self._fleet.allocator.budget,
            self._objective(),
        )


def _figures(belief: _Belief) -> Figures:
    benefit = expected_benefit(
        belief.rates, belief.weight, belief.cost, belief.budget, belief.objective, belief.half_life
    )
    known = np.where(np.isnan(belief.rates), 0.0, belief.rates)
    amplitude, rate = amplitude_and_rate(belief.objective, known, belief.weight, belief.half_life)
    return Figures(benefit, value(belief.last_gap, amplitude, rate))
