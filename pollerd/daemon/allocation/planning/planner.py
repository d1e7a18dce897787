"""Plans the budget: what it would have to be to learn of a share of all changes in time, and what today's brings."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.delays import Delays
from pollerd.allocation.core.plan import Goal, plan
from pollerd.allocation.core.split import Split
from pollerd.daemon.allocation.planning.plan_beliefs import PlanBeliefs, plan_beliefs
from pollerd.daemon.allocation.planning.plan_limits import held_back
from pollerd.daemon.allocation.planning.plan_rows import KNOWN_POLLS, PlanRows, plan_rows
from pollerd.daemon.allocation.planning.plan_tags import (
    DatedDelays,
    ExpectedDelays,
    finite,
    per_day,
    rounded,
    tag_plans,
)
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.errors import InvalidValueError
from pollerd.planning.budget_plan import BudgetPlan, HeldBack, PlanLimit
from pollerd.ranges import BUDGET, PLAN
from pollerd.storage import HistoryStore, SiteStore

DATED_CHANGES = 20_000
"""Newest changes among which those with a date are sought."""


@dataclass(frozen=True)
class _Periods:
    """The periods float64[k] s at today's budget, the changes float64[k] per second of each row, and the answer."""

    now: NDArray[np.float64]
    changes: NDArray[np.float64]
    needed: float | None
    most: float
    limits: tuple[HeldBack, ...]

    def expected(self, estimated: bool) -> ExpectedDelays:
        """Returns what follows for the delays; estimated: whether the changes are, or all sites count alike."""
        return ExpectedDelays(self.now, self.changes, estimated)


class Planner:
    """Plans for the objective and the allocator in force, one plan at a time."""

    def __init__(self, *, scheduler: SchedulerState, sites: SiteStore, history: HistoryStore) -> None:
        self._scheduler, self._sites, self._history = scheduler, sites, history
        self._turn = asyncio.Lock()

    async def plan(self, share: float, within: float, tag: str | None = None) -> BudgetPlan:
        """Returns the budget by which a share of the changes is learned of within so many seconds, and what today's
        brings.

        tag: only changes of sites with this tag count. Works in a thread; other plans wait. Raises InvalidValueError
        for numbers out of range and for a tag of no polled site, DatabaseUnavailableError.
        """
        PLAN["share"].check(share)
        PLAN["within"].check(within)
        async with self._turn:
            tagged = None if tag is None else await self._sites.ids_tagged(tag)
            scheduler = self._scheduler
            async with scheduler.changing_sites:  # the slots stay those of the same sites
                rows = plan_rows(scheduler, tagged)
                if tag is not None and not rows.asked.any():
                    raise InvalidValueError("tag", "the tag of a site that is polled", tag)
                beliefs = await plan_beliefs(scheduler, rows)
                budget, objective, name = scheduler.budget, scheduler.objective, scheduler.allocator_name
                deadline = scheduler.deadline
            found = await asyncio.to_thread(_periods, rows, beliefs, Goal(share, within), budget)
            delays = DatedDelays(*await self._history.dated_delays(DATED_CHANGES))
            tags = await self._sites.tags_among(np.union1d(rows.site_id, delays.site_id).tolist())
            estimated = beliefs.estimated
            by_tag = await asyncio.to_thread(tag_plans, rows, found.expected(estimated), tags, delays, within)
            now = Delays(found.now[rows.asked], found.changes[rows.asked])
            return BudgetPlan(
                objective=objective,
                allocator=name,
                tag=tag,
                share=share,
                within=within,
                budget=found.needed,
                most=finite(found.most),
                limits=found.limits,
                current_budget=budget,
                current_share=finite(now.share(within)),
                delay_median=finite(now.quantile(0.5)),
                delay_p90=finite(now.quantile(0.9)),
                measured=(delays if tagged is None else delays.of(tagged)).measured(),
                sites=rounded(rows.sites[rows.asked]),
                changes_per_day=per_day(found.changes[rows.asked]) if estimated else None,
                seldom_polled=rounded(rows.sites[rows.asked & (rows.polls < KNOWN_POLLS)]),
                sampled=rows.sampled,
                by_tag=by_tag,
                deadline=deadline if objective == "deadline" else None,
            )


def _periods(rows: PlanRows, beliefs: PlanBeliefs, goal: Goal, budget: float) -> _Periods:
    estimated = beliefs.estimated
    rates = np.nan_to_num(beliefs.rates) if estimated else np.ones(len(rows.slots))
    changes = rates * rows.sites
    if not rows.asked.any():
        return _Periods(np.empty(0), changes, None, math.nan, ())
    split = Split(beliefs.preference(), rows.bounds, rows.cost, rows.sites)
    counting = np.where(rows.asked, changes, 0.0)
    found = plan(split, counting, goal, budget, (BUDGET.lowest, BUDGET.highest))
    most = Delays(found.unlimited, counting).share(goal.within)
    limits: tuple[HeldBack, ...] = ()
    if found.needed is None and most < goal.share:
        limits = held_back(rows, found.unlimited, changes, goal.within)
    elif found.needed is None and not math.isnan(most):
        limits = (HeldBack(PlanLimit.LARGEST_BUDGET, rounded(rows.sites[rows.asked]), 0, None, most - goal.share),)
    return _Periods(found.now, changes, found.needed, most, limits)
