"""Changes the allocation of the running daemon: budget, objective, allocator, shadows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pollerd import allocation
from pollerd.daemon.allocation.explain import ScheduleExplainer
from pollerd.daemon.allocation.handover import AllocatorHandover
from pollerd.daemon.allocation.shadows import Shadows
from pollerd.daemon.polling.budget import Budget
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.settings import check_budget
from pollerd.daemon.state.views import AllocationView
from pollerd.errors import InvalidValueError
from pollerd.storage import AllocationRow, Store

OBJECTIVES = ("changes", "freshness", "interest")


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
        """Returns the yield of the budget under the current belief, without the benefit curve."""
        return self._explainer.allocation()

    async def over_budgets(self) -> AllocationView:
        """Returns `view` with the benefit curve over other budgets."""
        return await self._explainer.allocation_over_budgets()

    async def set(
        self,
        *,
        allocator: str | None = None,
        objective: str | None = None,
        budget: float | None = None,
        shadows: Sequence[str] | None = None,
    ) -> AllocationView:
        """Changes the given settings; None leaves one unchanged. A new allocator first learns from the stored polls.

        New `shadows` replace the old ones and start learning; a change of objective restarts all shadows. An allocator
        that becomes active is removed from the shadows. Raises InvalidValueError.
        """
        name = self._scheduler.allocator_name if allocator is None else allocator
        goal = self._scheduler.objective if objective is None else objective
        if name not in allocation.names():
            raise InvalidValueError("allocator", "one of " + ", ".join(allocation.names()), name)
        if goal not in OBJECTIVES:
            raise InvalidValueError("objective", "one of " + ", ".join(OBJECTIVES), goal)
        rate = self._budget.rate if budget is None else check_budget(budget)
        async with self._changing:
            before = self._shadows.names()
            wanted = tuple(n for n in before if n != name) if shadows is None else tuple(shadows)
            renewed = shadows is not None or goal != self._scheduler.objective or wanted != before
            new = self._shadows.made(wanted, goal, name) if renewed else []
            if (name, goal) != (self._scheduler.allocator_name, self._scheduler.objective):
                await self._switch(name, goal, rate)
            async with self._scheduler.changing_sites:
                self._budget.rate = rate
                self._scheduler.budget_fit.fit(rate)
                await self._store.save_allocation(AllocationRow(name, goal, rate))
                if renewed:
                    await self._shadows.put(wanted, new)
            await self._explainer.begin_anew()
        return await self.over_budgets()

    async def _switch(self, name: str, objective: str, budget: float) -> None:
        """Switches allocators in one transaction; polling continues while the candidate learns."""
        spendable = self._scheduler.budget_fit.allocator_budget(budget)
        fresh = allocation.create(name, budget=spendable, objective=objective, rng=self._rng)
        handover = AllocatorHandover(store=self._store.history, scheduler=self._scheduler, candidate=fresh)
        await handover.prepare()
        # No poll may be committed between the replayed polls and the first one that the new allocator observes.
        async with self._scheduler.changing_sites, self._journal.quiesced():
            shared, learned = await handover.finish()
            await self._store.replace_learned(AllocationRow(name, objective, budget, shared), learned)
            self._scheduler.replace_allocator(name, fresh, objective)
            self._explainer.forget_predictions()
