"""What the whole budget brings: at this node, and at the others, which are asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Protocol

import structlog

from pollerd.daemon.allocation.explain import ScheduleExplainer
from pollerd.daemon.allocation.summed_views import summed
from pollerd.daemon.state.views import AllocationView
from pollerd.errors import DatabaseUnavailableError, HolderUnavailableError
from pollerd.storage import LivingNode, SharedAllocation


class ShowsAllocation(Protocol):
    """Asks the other nodes; `daemon.cluster.node_client.NodeClient`."""

    async def others(self) -> list[LivingNode]:
        """Returns the other nodes. Raises DatabaseUnavailableError."""

    async def allocation(self, node: LivingNode) -> AllocationView:
        """Returns what a node's part of the budget brings. Raises HolderUnavailableError."""


class WholeBudget:
    """Shows what the budget brings, over the sites of all nodes."""

    def __init__(
        self, *, explainer: ScheduleExplainer, shared: SharedAllocation | None, nodes: ShowsAllocation | None
    ) -> None:
        """shared, nodes: None where the daemon is alone."""
        self.explainer = explainer
        """Of this process's sites."""
        self._shared, self._nodes = shared, nodes
        self._log = structlog.get_logger("pollerd.allocation")

    async def over_budgets(self) -> AllocationView:
        """Returns the yield of the budget, with the benefit curve over other budgets."""
        own = await self.explainer.allocation_over_budgets()
        if self._nodes is None or self._shared is None:
            return own
        try:
            others, row = await self._nodes.others(), await self._shared.stored()
        except DatabaseUnavailableError:
            return replace(own, missing_nodes=None)
        answers = await asyncio.gather(*(self._of(self._nodes, node) for node in others))
        missing = tuple(node.name for node, answer in zip(others, answers, strict=True) if answer is None)
        views = [own, *(answer for answer in answers if answer is not None)]
        budget = sum(one.budget for one in views) if row is None else row.budget
        return replace(summed(views, budget), missing_nodes=missing)

    async def _of(self, nodes: ShowsAllocation, node: LivingNode) -> AllocationView | None:
        """Returns what a node's part brings; None: it gave no answer."""
        try:
            return await nodes.allocation(node)
        except HolderUnavailableError as error:
            self._log.info("allocation_of_node_missing", node=node.name, reason=str(error))
            return None
