"""Control of the running daemon's allocation: budget, objective, allocator, shadows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from pollerd.allocation import registry
from pollerd.allocation.contract import Allocator
from pollerd.allocation.registered import OBJECTIVES
from pollerd.daemon.budget import Budget
from pollerd.daemon.commit import Journal
from pollerd.daemon.explain import ScheduleExplainer
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.settings import check_budget
from pollerd.daemon.shadows import AllocatorHandover, Shadows
from pollerd.daemon.views import AllocationView
from pollerd.errors import InvalidValueError, unknown_name
from pollerd.partitions import UNSPLIT, unsplit_among
from pollerd.site_settings import SITE
from pollerd.storage.grants import SharedAllocation
from pollerd.storage.store import Store
from pollerd.storage.values import AllocationRow
from pollerd.texts import N_, _


class AllocationControl:
    """Shows how the budget is spent, and changes it while polling continues."""

    def __init__(
        self,
        *,
        store: Store,
        scheduler: SchedulerState,
        budget: Budget,
        journal: Journal,
        shadows: Shadows,
        explainer: ScheduleExplainer,
        runtime: Runtime,
    ) -> None:
        self._store, self._scheduler, self._budget, self._journal = store, scheduler, budget, journal
        self._shadows, self._explainer, self._rng = shadows, explainer, runtime.rng
        self._changing = asyncio.Lock()

    def view(self) -> AllocationView:
        """Returns the yield of this process's budget under the current belief, without the benefit curve."""
        return self._explainer.allocation()

    async def over_budgets(self) -> AllocationView:
        """Returns the yield of this process's budget, of several nodes its share, with that of other budgets."""
        return await self._explainer.allocation_over_budgets()

    async def set(
        self,
        *,
        allocator: str | None = None,
        objective: str | None = None,
        deadline: float | None = None,
        budget: float | None = None,
        shadows: Sequence[str] | None = None,
    ) -> AllocationView:
        """Changes the given settings; None leaves one unchanged. A new allocator first learns from the stored polls.

        New `shadows` replace the old ones and start learning; a change of objective restarts all shadows, and under the
        objective `deadline` one of the deadline (s, of sites without their own). An allocator that becomes active is
        removed from the shadows. Raises InvalidValueError.
        """
        name = self._scheduler.allocator_name if allocator is None else allocator
        goal = self._scheduler.objective if objective is None else objective
        if name not in registry.names():
            raise unknown_name("allocator", N_("policy"), name, registry.names())
        if goal not in OBJECTIVES:
            raise unknown_name("objective", N_("goal"), goal, OBJECTIVES)
        if deadline is not None:
            SITE["deadline"].check(deadline)
        if self._store.shared is not None:
            return await self._set_for_all(self._store.shared, allocator, objective, deadline, budget, shadows)
        due = self._scheduler.deadline if deadline is None else deadline
        rate = self._budget.rate if budget is None else check_budget(budget)
        async with self._changing:
            before = self._shadows.names()
            shadow_names = tuple(n for n in before if n != name) if shadows is None else tuple(shadows)
            another = self._is_another(goal, due)
            renewed = shadows is not None or another or shadow_names != before
            new = self._shadows.made(shadow_names, goal, name, due) if renewed else None
            row = AllocationRow(name, goal, rate, deadline=due, shadows=shadow_names)
            switched = another or name != self._scheduler.allocator_name
            await self._put(row, switched=switched, shadows=new, save=not switched, rate=rate)
        return await self.over_budgets()

    async def _set_for_all(
        self,
        shared: SharedAllocation,
        allocator: str | None,
        objective: str | None,
        deadline: float | None,
        budget: float | None,
        shadows: Sequence[str] | None,
    ) -> AllocationView:
        """Sets it for all nodes, this one first; the others follow the news, and the budget with their next reports."""
        rate = None if budget is None else check_budget(budget)

        def choose(kept: AllocationRow | None) -> AllocationRow:
            if kept is None:  # it was there when this node joined
                now = self._scheduler
                kept = AllocationRow(now.allocator_name, now.objective, self._budget.rate, deadline=now.deadline)
            name = allocator or kept.allocator
            others = kept.shadows if shadows is None else shadows
            shadow_names = tuple(n for n in others if shadows is not None or n != name)
            due = kept.deadline if deadline is None else deadline
            return AllocationRow(
                name, objective or kept.objective, rate or kept.budget, shadows=shadow_names, deadline=due
            )

        row = choose(await shared.stored())
        due = self._due(row)
        self._shadows.made(row.shadows, row.objective, row.allocator, due)
        self._shadows.admitted(row.allocator, row.objective, due)
        await shared.change(choose, check_split)
        await self.adopt()
        return await self.over_budgets()

    async def adopt(self) -> None:
        """Brings this node in step with the allocation of all nodes, but for the budget.

        Raises InvalidValueError if an allocator cannot hold this node's sites, DatabaseUnavailableError.
        """
        shared = self._store.shared
        async with self._changing:
            row = None if shared is None else await shared.stored()
            if row is None:
                return
            due = self._due(row)
            another = self._is_another(row.objective, due)
            switched = another or row.allocator != self._scheduler.allocator_name
            renewed = another or row.shadows != self._shadows.names()
            new = self._shadows.made(row.shadows, row.objective, row.allocator, due) if renewed else None
            row = replace(row, budget=self._budget.rate, deadline=due)
            await self._put(row, switched=switched, shadows=new)

    def _is_another(self, objective: str, deadline: float) -> bool:
        """Returns whether an allocator for these would choose otherwise than the one that runs."""
        now = self._scheduler
        return objective != now.objective or (objective == "deadline" and deadline != now.deadline)

    def _due(self, row: AllocationRow) -> float:
        return self._scheduler.deadline if row.deadline is None else row.deadline

    async def _put(
        self,
        row: AllocationRow,
        *,
        switched: bool,
        shadows: Sequence[Allocator] | None,
        save: bool = False,
        rate: float | None = None,
    ) -> None:
        """Puts the allocation in force, stored first: a call that fails changes nothing. Polling goes on meanwhile.

        switched: to a new allocator, which learns from the stored polls first. shadows: new ones; None: they stay.
        save: store the row itself, which a switch of a daemon that is alone does anyway. rate: a new budget, or None.
        """
        handover = await self._prepared(row) if switched else None
        # No poll may be committed between the replayed polls and the first one that a new allocator observes.
        learning = switched or shadows is not None
        async with self._scheduler.changing_sites, self._journal.quiesced() if learning else nullcontext():
            through = 0 if shadows is None else await self._store.history.last_poll_id()
            if handover is not None:
                shared, learned = await handover.finish()
                await self._store.allocation.replace_learned(replace(row, shared_state=shared), learned)
            elif save:
                await self._store.allocation.save(row)
            if handover is not None:
                self._scheduler.replace_allocator(row.allocator, handover.candidate, row.objective, self._due(row))
                self._explainer.forget_predictions()
            self._scheduler.deadline = self._due(row)
            if rate is not None:
                self._budget.rate = rate
                self._scheduler.budget_fit.fit(rate)
            if shadows is not None:
                self._shadows.put(row.shadows, shadows, through)
        if learning or rate is not None:
            await self._explainer.begin_anew()

    async def _prepared(self, row: AllocationRow) -> AllocatorHandover:
        """Returns a new allocator that has learned the polls stored so far."""
        fresh = registry.create(
            row.allocator,
            budget=self._scheduler.budget_fit.allocator_budget(row.budget),
            objective=row.objective,
            rng=self._rng,
            deadline=self._due(row),
        )
        handover = AllocatorHandover(store=self._store.history, scheduler=self._scheduler, candidate=fresh)
        await handover.prepare()
        return handover


def check_split(row: AllocationRow) -> None:
    """Raises InvalidValueError if nodes cannot divide the allocation."""
    for field, names in (("allocator", [row.allocator]), ("shadows", list(row.shadows))):
        whole = unsplit_among(names)
        if whole:
            allowed = _(
                "none of {unsplit} where pollerd runs with --node: nodes cannot divide their state",
                unsplit=", ".join(sorted(UNSPLIT)),
            )
            raise InvalidValueError(field, allowed, ", ".join(whole))
