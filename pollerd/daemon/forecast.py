"""Forecasts of the budget's yield under the current belief: price, and value at the best split, uniform and as run.

The value of polling a site is the expectation over the posterior of its rate, not the value at the mean rate.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.budget_split import EMPTY, Benefit, PriceCurve, price_curve
from pollerd.allocation.finite_feeds import with_items_shown
from pollerd.allocation.objectives import ExpectedTimeliness, PricedSites, deadlines, priced_sites, timeliness
from pollerd.allocation.registered import TIMELY
from pollerd.columns import chunks
from pollerd.daemon.scheduler_state import SchedulerState

FRESH_SECONDS = 5.0
"""Figures and curves older than this are recomputed."""
_SMALL = 1_000
"""Largest number of sites whose figures are computed in the loop: about ten milliseconds."""
SAMPLE_SITES = 16_384
"""Approximate sample size for longer lists: computing over all sites would block the loop and fill the memory."""
_MIN_PERIOD_SECONDS = 1e-200
_GOLDEN = 2_654_435_769
"""2³² divided by the golden ratio."""
CURVE_SHARE = 0.05
"""Largest share of the time spent on computing curves."""
CURVE_FACTORS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
"""Budgets of the curve, relative to the current one."""


@dataclass(frozen=True)
class Figures:
    """One forecast. Values are per second: for `changes`, weighted detections, and for `delay` too."""

    benefit: Benefit
    as_scheduled: float
    """Value when every site keeps the interval between its last two polls, within its present bounds."""
    slots: NDArray[np.int64]
    """int64[k], ascending: sites of `benefit.periods` float64[k]."""
    timeliness: ExpectedTimeliness | None = None
    """How soon changes are found; None under objectives that are not about that."""


@dataclass(frozen=True)
class BenefitCurve:
    """Values per second at the best split for other budgets."""

    points: tuple[tuple[float, float], ...]
    """(budget, value), by budget."""
    one_more: float
    """Value added by one more poll per second."""


@dataclass(frozen=True)
class BeliefColumns:
    """Copies of the columns that the figures depend on, float64[k] each, for live slots int64[k]."""

    slots: NDArray[np.int64]
    rates: tuple[NDArray[np.float64], NDArray[np.float64]]
    """As returned by `Allocator.belief_of`."""
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    half_life: NDArray[np.float64]
    deadline: NDArray[np.float64]
    """Seconds, with the default for those without their own."""
    floor: NDArray[np.float64]
    """Shortest gap between two polls that intervals, beliefs (min_yield) and politeness allow, s."""
    last_gap: NDArray[np.float64]
    budget: float
    """The user's budget."""
    reach: float
    """Largest budget that politeness and min_intervals allow to be spent."""
    objective: str
    items_shown: NDArray[np.float64]
    """Of feeds: how many of their newest items they show; nan: no limit is known."""
    counts_items: bool
    """Whether the allocator heeds that."""
    factor: float
    """Cost of all live sites divided by the cost of these."""

    def priced_sites(self) -> PricedSites:
        """Returns the sites' indices under the belief."""
        return self._under(self.objective)

    def shown(self) -> PricedSites:
        """Returns the sites with the values that are shown: under `delay`, of whose costs nobody has a notion, those of
        `changes`.
        """
        return self._under("changes" if self.objective == "delay" else self.objective)

    def _under(self, objective: str) -> PricedSites:
        settings = self.weight, self.cost, self.half_life, self.floor
        sites = priced_sites(self.rates, *settings, objective, self.deadline)
        return with_items_shown(sites, self.weight, self.items_shown, objective) if self.counts_items else sites

    def share(self, budget: float) -> float:
        """Returns these sites' share of the spendable part of a budget."""
        return min(budget, self.reach) / self.factor

    def uniform(self) -> NDArray[np.float64]:
        """Returns the periods float64[k] s under round robin: equal, except where a floor is longer."""
        return np.maximum(even_period(self.cost, self.floor, self.share(self.budget)), self.floor)

    def as_kept(self) -> NDArray[np.float64]:
        """Returns the periods float64[k] s when every site keeps the gap between its last two polls, within the same
        bounds.

        Sites polled less than twice get their round-robin period.
        """
        return np.where(np.isfinite(self.last_gap), np.maximum(self.last_gap, self.floor), self.uniform())


def sample(chosen: NDArray[np.bool_], most: int | None = None) -> NDArray[np.int64]:
    """Returns about `most` (None: `SAMPLE_SITES`) of the chosen slots, bool[n], always the same; all if not more.

    Uses multiples of the golden ratio: a constant step could coincide with a periodic pattern in the list.
    """
    number, most = int(np.count_nonzero(chosen)), SAMPLE_SITES if most is None else most
    if number <= most:
        return np.flatnonzero(chosen)
    return np.concatenate([_sample(part, chosen[part], 2**32 * most / number) for part in chunks(len(chosen))])


def _sample(part: slice, chosen: NDArray[np.bool_], below: float) -> NDArray[np.int64]:
    place = np.arange(part.start, part.stop, dtype=np.uint32) * np.uint32(_GOLDEN)
    slots: NDArray[np.int64] = np.flatnonzero(chosen & (place < below)) + part.start
    return slots


def even_period(cost: NDArray[np.float64], floor: NDArray[np.float64], budget: float) -> float:
    """Returns the period, s, at which `Σ cost / max(period, floor)` equals the budget; 0 if the floors leave some
    unspent.

    cost, floor float64[k].
    """
    order = np.argsort(floor)
    cost, floor = cost[order], np.maximum(floor[order], _MIN_PERIOD_SECONDS)
    slower = np.append(np.cumsum((cost / floor)[::-1])[::-1], 0.0)
    if slower[0] <= budget:
        return 0.0
    # Sites before place i share one period; the others keep their floors.
    spent = np.cumsum(cost) / floor + slower[1:]
    place = int(np.searchsorted(-spent, -budget, "right"))
    return float(cost[:place].sum() / (budget - slower[place]))


class Forecast:
    """Keeps the latest figures. For long lists they are computed in a thread."""

    def __init__(self, scheduler: SchedulerState, clock: Callable[[], float]) -> None:
        self._scheduler, self._clock = scheduler, clock
        self._figures: Figures | None = None
        self._at = -math.inf
        self._curve: BenefitCurve | None = None
        self._renew_at = -math.inf
        self._renewing: asyncio.Task[BenefitCurve] | None = None

    async def refresh(self) -> Figures:
        """Recomputes the figures in a thread."""
        return self._keep(await asyncio.to_thread(_figures, self.belief()))

    async def begin_anew(self) -> None:
        """Discards the results and recomputes them after a change of budget, objective or allocator."""
        self._curve, self._renewing = None, None
        await self.refresh()

    async def curve(self) -> BenefitCurve:
        """Returns the benefit curve, computed in a thread, once for all concurrent callers.

        While a new curve is computed the previous one is returned; only the first call waits.
        """
        task = self._renewing
        if task is None or (task.done() and time.monotonic() >= self._renew_at):
            task = self._renewing = asyncio.create_task(self._work_out(self.belief()))
        if self._curve is None or task.done():
            return await asyncio.shield(task)
        return self._curve

    async def _work_out(self, belief: BeliefColumns) -> BenefitCurve:
        started = time.monotonic()
        curve = await asyncio.to_thread(_curve, belief)
        if asyncio.current_task() is self._renewing:
            self._curve, ended = curve, time.monotonic()
            self._renew_at = ended + max(FRESH_SECONDS, (ended - started) / CURVE_SHARE)
        return curve

    def figures(self) -> Figures:
        """Returns the latest figures; recomputes stale ones if the list is short."""
        stale = self._clock() - self._at > FRESH_SECONDS
        if self._figures is None or (stale and self._scheduler.sites.size <= _SMALL):
            return self._keep(_figures(self.belief()))
        return self._figures

    def period(self, slot: int) -> float:
        """Returns the seconds between polls of the site at the best split; inf if it is never polled."""
        figures = self.figures()
        place = int(np.searchsorted(figures.slots, slot))
        if place < len(figures.slots) and figures.slots[place] == slot:
            return float(figures.benefit.periods[place])
        if not self._scheduler.sites.in_force(np.array([slot]))[0]:
            return math.inf  # a closed site: the interval that it will have once it is open
        return float(self._belief_of(np.array([slot])).priced_sites().periods(figures.benefit.price)[0])

    def belief(self) -> BeliefColumns:
        """Returns the current belief; for a sample if the list is long."""
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
            half_life=sites.half_lives(slots),
            deadline=deadlines(sites.deadline[slots], scheduler.deadline),
            floor=scheduler.floors(slots) * crowding.of(sites.host[slots]),
            last_gap=sites.last_gap[slots].astype(np.float64),
            budget=scheduler.budget,
            reach=crowding.total,
            objective=self._scheduler.objective,
            items_shown=sites.items_shown[slots],
            counts_items=scheduler.allocator.counts_items,
            factor=scheduler.live_cost() / float(cost.sum()) if len(slots) else 1.0,
        )


def _figures(belief: BeliefColumns) -> Figures:
    shown = belief.shown()
    price, periods = belief.priced_sites().split(belief.share(belief.budget))
    uniform, as_kept = belief.uniform(), belief.as_kept()
    values = [shown.value(every) * belief.factor for every in (as_kept, uniform, periods)]
    soon = None
    if belief.objective in TIMELY:
        soon = timeliness(belief.rates, belief.weight, belief.deadline, (as_kept, uniform, periods))
    return Figures(Benefit(price, values[2], values[1], periods), values[0], belief.slots, soon)


def _curve(belief: BeliefColumns) -> BenefitCurve:
    sites, shown = belief.priced_sites(), belief.shown()

    def best(budget: float) -> float:
        return shown.value(sites.split(belief.share(budget))[1]) * belief.factor

    points = tuple((factor * belief.budget, best(factor * belief.budget)) for factor in CURVE_FACTORS)
    return BenefitCurve(points, best(belief.budget + 1.0) - best(belief.budget))


# Reports of a node for its grant of the budget: the cost of its sites, and the value of more polls of them.

_KNOWN_SHARE = 0.5
"""Share of the sites that must have been polled twice before the belief about them says what polls are worth."""


async def reported_curve(forecast: Forecast, whole: float) -> tuple[float, bytes | None]:
    """Returns cost and curve for a `GrantReport`, as the node's allocator now believes; works in a thread.

    whole: the budget of all nodes, polls per second: the curve reaches up to it.
    """
    belief = forecast.belief()
    curve = await asyncio.to_thread(curve_of, belief, whole)
    return float(belief.cost.sum()) * belief.factor, None if curve is None else curve.to_bytes()


def curve_of(belief: BeliefColumns, whole: float) -> PriceCurve | None:
    """Returns what budgets up to the whole one are worth to these sites; None if too little is known of them.

    Before polls teach otherwise a site is taken to change about once in a uniform cycle, which a small grant makes
    long: a node that has just begun would ask for little, and get little, for hours.

    Politeness, min_interval and min_yield bound what the sites can spend.
    """
    if not len(belief.slots):
        return EMPTY
    polled_twice = np.isfinite(belief.last_gap).mean()
    if np.isnan(belief.rates[0]).all() or polled_twice < _KNOWN_SHARE:
        return None
    return price_curve(belief.priced_sites(), belief.cost, whole, belief.factor)
