"""What the budget brings under the present belief: price, and expected value at the best split, uniform, as run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.benefit import Benefit, expected_benefit, value
from pollerd.allocation.index import amplitude_and_rate, periods
from pollerd.daemon.fleet import Fleet

_FRESH_SECONDS = 5.0
_SMALL = 5_000
"""Sites up to which the figures are worked out on the spot: a few milliseconds."""
SAMPLE_SITES = 65_536
"""Of more sites the figures are worked out from about as many: all would hold up the loop, and fill memory."""
_GOLDEN = 2_654_435_769
"""2³² over the golden ratio."""


@dataclass(frozen=True)
class Figures:
    """One look ahead. Values are per second; detections for the objective `changes`, weighted."""

    benefit: Benefit
    as_scheduled: float
    """When every site keeps the interval between its last two polls."""
    slots: NDArray[np.int64]
    """int64[k], ascending: the sites that `benefit.periods` float64[k] are of."""


@dataclass(frozen=True)
class _Belief:
    """Copies of the columns that the figures follow from, float64[k] each, for live slots int64[k]."""

    slots: NDArray[np.int64]
    rates: NDArray[np.float64]
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    half_life: NDArray[np.float64]
    last_gap: NDArray[np.float64]
    budget: float
    """The sites' share of it."""
    objective: str
    factor: float
    """Cost of all live sites in parts of that of these."""


def sample(slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """About `SAMPLE_SITES` of the slots, the same each time; all where they are no more.

    By multiples of the golden ratio: steps of one length would meet what repeats in a list in step.
    """
    if len(slots) <= SAMPLE_SITES:
        return slots
    place = slots.astype(np.uint32) * np.uint32(_GOLDEN)
    return slots[place < 2**32 * SAMPLE_SITES / len(slots)]


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

    def period(self, slot: int) -> float:
        """Seconds between polls of the site at the best split, inf where it is not polled at all."""
        figures = self.figures()
        place = int(np.searchsorted(figures.slots, slot))
        if place < len(figures.slots) and figures.slots[place] == slot:
            return float(figures.benefit.periods[place])
        if not self._fleet.live()[slot]:
            return math.inf
        sites, one = self._fleet.sites, np.array([slot])
        rate = np.nan_to_num(self._fleet.allocator.rates_of(one))
        amplitude, pace = amplitude_and_rate(self._objective(), rate, sites.weight[one], sites.half_life[one])
        period = float(periods(figures.benefit.price, amplitude, pace, sites.cost[one])[0])
        return period if period > 0 else math.inf

    def _keep(self, figures: Figures) -> Figures:
        self._figures, self._at = figures, self._clock()
        return figures

    def _belief(self) -> _Belief:
        sites, allocator = self._fleet.sites, self._fleet.allocator
        slots = sample(np.flatnonzero(self._fleet.live()))
        cost = sites.cost[slots]
        factor = self._fleet.live_cost() / float(cost.sum()) if len(slots) else 1.0
        return _Belief(
            slots,
            allocator.rates_of(slots),
            sites.weight[slots],
            cost,
            sites.half_life[slots],
            sites.last_gap[slots].astype(np.float64),
            allocator.budget / factor,
            self._objective(),
            factor,
        )


def _figures(belief: _Belief) -> Figures:
    found = expected_benefit(
        belief.rates, belief.weight, belief.cost, belief.budget, belief.objective, belief.half_life
    )
    known = np.where(np.isnan(belief.rates), 0.0, belief.rates)
    amplitude, rate = amplitude_and_rate(belief.objective, known, belief.weight, belief.half_life)
    benefit = replace(found, best=found.best * belief.factor, uniform=found.uniform * belief.factor)
    return Figures(benefit, value(belief.last_gap, amplitude, rate) * belief.factor, belief.slots)
