"""Shows the nodes of the database: who is there, what each holds, and what it may spend."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pollerd.cluster.roles import ROLE_OF_UNIT
from pollerd.storage import BudgetStatus, ClusterStore, GrantStore, LivingNode, LockTable


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeView:
    """A node. Rates are polls per second, times epoch seconds."""

    id: int
    name: str
    address: str | None
    version: str
    started_at: float
    here: bool
    """Whether it is the one that was asked."""
    partitions: int
    roles: tuple[str, ...]
    grant: float | None
    """What it may spend at most; None: it has not asked for any yet."""
    target: float | None
    """What it is to have as soon as so much is free."""
    price: float | None
    """What one more poll per second is worth to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterView:
    """All nodes; none: the daemon runs alone."""

    partitions: int
    unheld: int
    """Partitions that no node holds now: their sites are not polled."""
    budget: float | None
    """Polls per second of all nodes; None: none has asked for a share of it yet."""
    in_force: float | None
    """What all may be spending at most: more than the budget for a moment after it was lowered."""
    nodes: tuple[NodeView, ...]


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
            table, living, await self._grants.status(), await self._cluster.partitions(), self._cluster.node_id
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
                address=one.address or None,
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
