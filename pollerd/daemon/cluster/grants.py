"""Spends what this node is granted of the budget of all nodes, and reports what more would be worth."""

from __future__ import annotations

import asyncio

import structlog

from pollerd.daemon.allocation.forecast import Forecast
from pollerd.daemon.allocation.grant_curve import reported_curve
from pollerd.daemon.polling.budget import Budget
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.settings import BUDGET_MIN
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage import ClusterStore, GrantAnswer, GrantReport, GrantStore, Store
from pollerd.telemetry.cluster_instruments import ClusterInstruments

_REPORT_SECONDS = 3.0
_SOON_SECONDS = 1.0
"""Between two reports while others have not yet given back what this node is to have, and after an error."""


class GrantFollower:
    """Keeps the node's budget at its grant."""

    def __init__(
        self,
        *,
        store: Store,
        cluster: ClusterStore,
        grants: GrantStore,
        scheduler: SchedulerState,
        budget: Budget,
        forecast: Forecast,
        instruments: ClusterInstruments,
    ) -> None:
        """budget: its rate is that of all nodes, until this one gets its first grant."""
        self._store, self._cluster, self._grants = store, cluster, grants
        self._scheduler, self._budget, self._forecast = scheduler, budget, forecast
        self._whole, self._instruments = budget.rate, instruments
        self._spending = 0.0
        self._log = structlog.get_logger("pollerd.cluster")

    async def run(self) -> None:
        """Reports until cancelled."""
        while True:
            try:
                answer = await self._report()
            except DatabaseUnavailableError as error:  # what it has stays its own meanwhile
                self._log.warning("not_reported", reason=str(error))
                await asyncio.sleep(_SOON_SECONDS)
            else:
                await asyncio.sleep(_SOON_SECONDS if answer.grant < answer.target else _REPORT_SECONDS)

    async def adopt_budget(self) -> None:
        """Gives all nodes the budget that somebody set. Raises DatabaseUnavailableError."""
        stored = await self._store.load_allocation()
        if stored is not None and stored.budget != self._whole:
            await self._grants.set_budget(stored.budget)
            self._whole = stored.budget

    async def leave(self) -> None:
        """Gives back what this node has; it writes no more requests. Raises DatabaseUnavailableError."""
        await self._grants.leave(str(self._cluster.node_id))

    async def _report(self) -> GrantAnswer:
        cost, curve = await reported_curve(self._forecast, self._whole)
        while True:
            # By its id, which no later process has: what a dead one had may still be spent.
            report = GrantReport(str(self._cluster.node_id), self._spending, cost, curve)
            answer = await self._grants.report(report, self._cluster.living_names, self._whole)
            if answer.budget != self._whole:
                # That of the nodes before, whatever this one was started with; or a new one.
                self._log.info("budget_of_all_nodes", polls_per_second=answer.budget, instead_of=self._whole)
            self._whole = answer.budget
            lowered = answer.grant < self._spending
            self._spend(answer.grant)
            self._instruments.grant.set(answer.grant)
            self._instruments.grant_target.set(answer.target)
            self._instruments.price.set(answer.price)
            if not lowered:
                return answer

    def _spend(self, grant: float) -> None:
        if grant < BUDGET_MIN:
            self._spending = 0.0
            self._budget.granted.clear()
        elif grant != self._spending:
            self._spending = self._budget.rate = grant
            self._scheduler.budget_fit.fit(grant)
            self._budget.granted.set()
            self._scheduler.due.set()
