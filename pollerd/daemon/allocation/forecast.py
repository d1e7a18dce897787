"""What the budget brings under the present belief: price, and expected value at the best split, uniform, as run.

The value of polling a site is its expectation over what is believed of its rate, not that at the mean rate.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.benefit import Benefit
from pollerd.allocation.core.mixture import Mixture
from pollerd.columns import stretches
from pollerd.daemon.state.scheduler_state import SchedulerState

FRESH_SECONDS = 5.0
"""Figures and curves older than this are worked out anew."""
_SMALL = 1_000
"""Sites up to which the figures are worked out on the spot: some ten milliseconds."""
SAMPLE_SITES = 16_384
"""Of more sites the figures are worked out from about as many: all would hold up the loop, and fill memory."""
_LEAST_PERIOD_SECONDS = 1e-200
_GOLDEN = 2_654_435_769
"""2³² over the golden ratio."""
CURVE_SHARE = 0.05
"""A curve asked for again and again takes at most this share of the time."""
CURVE_FACTORS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
"""Budgets of the curve, in units of the present one."""


@dataclass(frozen=True)
class Figures:
    """One look ahead. Values are per second; detections for the objective `changes`, weighted."""

    benefit: Benefit
    as_scheduled: float
    """When every site keeps the interval between its last two polls, but for what its bounds have become."""
    slots: NDArray[np.int64]
    """int64[k], ascending: the sites that `benefit.periods` float64[k] are of."""


@dataclass(frozen=True)
class BenefitCurve:
    """Values per second at the best split of other budgets."""

    points: tuple[tuple[float, float], ...]
    """(budget, value), by budget."""
    one_more: float
    """What one more poll per second would add."""


@dataclass(frozen=True)
class BeliefColumns:
    """Copies of the columns that the figures follow from, float64[k] each, for live slots int64[k]."""

    slots: NDArray[np.int64]
    rates: tuple[NDArray[np.float64], NDArray[np.float64]]
    """As `Allocator.belief_of` tells."""
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    half_life: NDArray[np.float64]
    floor: NDArray[np.float64]
    """Shortest gap between two polls that intervals, beliefs (min_yield) and politeness allow, s."""
    last_gap: NDArray[np.float64]
    budget: float
    """What the user allows."""
    reach: float
    """What of any budget can be spent, for politeness and min_intervals."""
    objective: str
    factor: float
    """Cost of all live sites in parts of that of these."""

    def mixture(self) -> Mixture:
        """The sites' indices under the belief."""
        return Mixture.believed(self.rates, self.weight, self.cost, self.half_life, self.floor, self.objective)

    def share(self, budget: float) -> float:
        """The sites' share of what of a budget can be spent."""
        return min(budget, self.reach) / self.factor

    def uniform(self) -> NDArray[np.float64]:
        """Periods float64[k] s under round robin: one for all, but no shorter than each may have."""
        return np.maximum(even_period(self.cost, self.floor, self.share(self.budget)), self.floor)

    def as_kept(self) -> NDArray[np.float64]:
        """Periods float64[k] s when every site keeps the gap between its last two polls, within the same bounds.

        A site that was not polled twice counts as under round robin.
        """
        return np.where(np.isfinite(self.last_gap), np.maximum(self.last_gap, self.floor), self.uniform())


def sample(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """About `SAMPLE_SITES` of the chosen slots, bool[n], the same each time; all where they are no more.

    By multiples of the golden ratio: steps of one length would meet what repeats in a list in step.
    """
    number = int(np.count_nonzero(chosen))
    if number <= SAMPLE_SITES:
        return np.flatnonzero(chosen)
    return np.concatenate(
        [_sample(part, chosen[part], 2**32 * SAMPLE_SITES / number) for part in stretches(len(chosen))]
    )


def _sample(part: slice, chosen: NDArray[np.bool_], below: float) -> NDArray[np.int64]:
    place = np.arange(part.start, part.stop, dtype=np.uint32) * np.uint32(_GOLDEN)
    slots: NDArray[np.int64] = np.flatnonzero(chosen & (place < below)) + part.start
    return slots


def even_period(cost: NDArray[np.float64], floor: NDArray[np.float64], budget: float) -> float:
    """The period, s, at which `Σ cost / max(period, floor)` is the budget; 0 where the floors leave some of it over.

    cost, floor float64[k].
    """
    order = np.argsort(floor)
    cost, floor = cost[order], np.maximum(floor[order], _LEAST_PERIOD_SECONDS)
    slower = np.append(np.cumsum((cost / floor)[::-1])[::-1], 0.0)
    if slower[0] <= budget:
        return 0.0
    # Those before place i share one period; the others keep their floors.
    spent = np.cumsum(cost) / floor + slower[1:]
    place = int(np.searchsorted(-spent, -budget, "right"))
    return float(cost[:place].sum() / (budget - slower[place]))


class Forecast:
    """Keeps the latest figures. With many sites they are worked out beside the loop, not on it."""

    def __init__(self, scheduler: SchedulerState, clock: Callable[[], float]) -> None:
        self._scheduler, self._clock = scheduler, clock
        self._figures: Figures | None = None
        self._at = -math.inf
        self._curve: BenefitCurve | None = None
        self._renew_at = -math.inf
        self._renewing: asyncio.Task[BenefitCurve] | None = None

    async def refresh(self) -> Figures:
        """Works the figures out anew, off the loop."""
        return self._keep(await asyncio.to_thread(_figures, self.belief()))

    async def begin_anew(self) -> None:
        """Budget, objective or allocator are others: what was worked out before holds no more."""
        self._curve, self._renewing = None, None
        await self.refresh()

    async def curve(self) -> BenefitCurve:
        """Benefit over budgets, worked out off the loop, once for all who ask meanwhile.

        One that is some seconds old is given out while the next is on its way; nobody waits but for the first.
        """
        task = self._renewing
        if task is None or (task.done() and time.monotonic() >= self._renew_at):
            task = self._renewing = asyncio.create_task(self._work_out(self.belief()))
        if self._curve is None or task.done():
            return await asyncio.shield(task)
        return self._curve

    async def _work_out(self, belief: BeliefColumns) -> BenefitCurve:
        started = time.monotonic()
        found = await asyncio.to_thread(_curve, belief)
        if asyncio.current_task() is self._renewing:
            self._curve, ended = found, time.monotonic()
            self._renew_at = ended + max(FRESH_SECONDS, (ended - started) / CURVE_SHARE)
        return found

    def figures(self) -> Figures:
        """The latest figures, worked out anew where that is quick and they are older than a few seconds."""
        stale = self._clock() - self._at > FRESH_SECONDS
        if self._figures is None or (stale and self._scheduler.sites.size <= _SMALL):
            return self._keep(_figures(self.belief()))
        return self._figures

    def period(self, slot: int) -> float:
        """Seconds between polls of the site at the best split, inf where it is not polled at all."""
        figures = self.figures()
        place = int(np.searchsorted(figures.slots, slot))
        if place < len(figures.slots) and figures.slots[place] == slot:
            return float(figures.benefit.periods[place])
        if not self._scheduler.sites.in_force(np.array([slot]))[0]:
            return math.inf
        return float(self._belief_of(np.array([slot])).mixture().periods(figures.benefit.price)[0])

    def belief(self) -> BeliefColumns:
        """What is believed now, of a sample where there are very many sites."""
        return self._belief_of(sample(self._scheduler.live()))

    def _keep(self, figures: Figures) -> Figures:
        self._figures, self._at = figures, self._clock()
        return figures

    def _belief_of(self, slots: NDArray[np.int64]) -> BeliefColumns:
        scheduler, sites = self._scheduler, self._scheduler.sites
        cost, crowding = sites.cost[slots], scheduler.budget_fit.crowding()
        return BeliefColumns(
            slots=slots,
            rates=scheduler.allocator.belief_of(slots),
            weight=sites.weight[slots],
            cost=cost,
            half_life=sites.half_life[slots],
            floor=scheduler.floors(slots) * crowding.of(sites.host[slots]),
            last_gap=sites.last_gap[slots].astype(np.float64),
            budget=scheduler.budget,
            reach=crowding.total,
            objective=self._scheduler.objective,
            factor=scheduler.live_cost() / float(cost.sum()) if len(slots) else 1.0,
        )


def _figures(belief: BeliefColumns) -> Figures:
    mixture = belief.mixture()
    price, periods = mixture.split(belief.share(belief.budget))
    best, uniform, as_scheduled = (
        mixture.value(every) * belief.factor for every in (periods, belief.uniform(), belief.as_kept())
    )
    return Figures(Benefit(price, best, uniform, periods), as_scheduled, belief.slots)


def _curve(belief: BeliefColumns) -> BenefitCurve:
    mixture = belief.mixture()

    def best(budget: float) -> float:
        return mixture.value(mixture.split(belief.share(budget))[1]) * belief.factor

    points = tuple((factor * belief.budget, best(factor * belief.budget)) for factor in CURVE_FACTORS)
    return BenefitCurve(points, best(belief.budget + 1.0) - best(belief.budget))
