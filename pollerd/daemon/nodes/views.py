"""The nodes of a database: those that are present, their partitions, and what each may spend."""

from __future__ import annotations

from collections import Counter

from pollerd.daemon.views import ClusterView, NodeView
from pollerd.partitions import ROLE_OF_UNIT
from pollerd.storage.grants import BudgetStatus, GrantStore
from pollerd.storage.node_values import LivingNode, LockTable
from pollerd.storage.nodes import ClusterStore


class ClusterViewer:
    """Reads it from the database: every node shows the same."""

    def __init__(self, cluster: ClusterStore | None, grants: GrantStore | None) -> None:
        """cluster, grants: None where the daemon runs alone."""
        self._cluster, self._grants = cluster, grants

    async def view(self) -> ClusterView:
        """Returns how things stand. Raises DatabaseUnavailableError."""
        if self._cluster is None or self._grants is None:
            return ClusterView(partitions=0, unheld=0, budget=None, in_force=None, nodes=())
        table = await self._cluster.look()
        living = await self._cluster.living(sorted(table.nodes))
        return view_of(
            table, living, await self._grants.status(), await self._cluster.partitions.number(), self._cluster.node_id
        )


def view_of(
    table: LockTable, living: list[LivingNode], budget: BudgetStatus, partitions: int, asked: int
) -> ClusterView:
    """Puts together what the lock table, the nodes' rows and the grants say. asked: id of the node that was asked."""
    held = Counter(node for unit, node in table.holders.items() if unit not in ROLE_OF_UNIT)
    grants = {row.node: row for row in budget.nodes}
    nodes = []
    for one in living:
        row = grants.get(str(one.id))
        nodes.append(
            NodeView(
                id=one.id,
                name=one.name,
                version=one.version,
                started_at=one.started_at,
                here=one.id == asked,
                partitions=held[one.id],
                roles=tuple(ROLE_OF_UNIT[unit].value for unit in table.held_by(one.id) if unit in ROLE_OF_UNIT),
                grant=None if row is None else row.reserved,
                target=None if row is None else row.target,
                price=None if row is None else row.price,
            )
        )
    in_force = None if budget.budget is None else budget.in_force
    unheld = partitions - sum(held.values())
    return ClusterView(
        partitions=partitions, unheld=unheld, budget=budget.budget, in_force=in_force, nodes=tuple(nodes)
    )
