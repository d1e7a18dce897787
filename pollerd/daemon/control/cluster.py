"""The nodes of a database: those that are present, their partitions, and what each may spend; draining one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from pollerd.daemon.views import ClusterView, NodeView
from pollerd.errors import ConflictError
from pollerd.partitions import ROLE_OF_UNIT
from pollerd.storage.grants import BudgetStatus, GrantStore
from pollerd.storage.node_values import LivingNode, LockTable
from pollerd.storage.nodes import ClusterStore
from pollerd.texts import _


class ClusterControl:
    """Shows the nodes, from the database: every node shows the same. Has nodes hand over what they hold."""

    def __init__(self, cluster: ClusterStore | None, grants: GrantStore | None) -> None:
        """cluster, grants: None where the daemon runs alone."""
        self._cluster, self._grants = cluster, grants

    async def view(self) -> ClusterView:
        """Returns how things stand. Raises DatabaseUnavailableError."""
        if self._cluster is None or self._grants is None:
            return ALONE
        table = await self._cluster.look()
        connections = await self._cluster.connections()
        whole = ClusterView(
            partitions=await self._cluster.partitions.number(),
            unheld=0,
            budget=None,
            in_force=None,
            nodes_wanted=self._cluster.wanted,
            connections=connections.open,
            max_connections=connections.most,
            nodes=(),
        )
        living, starts = await self._cluster.living(sorted(table.nodes)), await self._cluster.starts()
        return with_nodes(whole, table, living, await self._grants.status(), starts, self._cluster.node_id)

    async def drain(self, name: str, drained: bool) -> ClusterView:
        """Has the nodes of this name hand over what they hold and take nothing any more, or ends that.

        Raises `ConflictError` where the daemon runs alone, and what `ClusterStore.drain` and `undrain` raise.
        """
        if self._cluster is None:
            raise ConflictError(_("this daemon runs alone: there are nodes where pollerd is started with --node"))
        await (self._cluster.drain if drained else self._cluster.undrain)(name)
        return await self.view()


ALONE = ClusterView(
    partitions=0, unheld=0, budget=None, in_force=None, nodes_wanted=0, connections=0, max_connections=0, nodes=()
)
"""Of a daemon that runs alone."""


def with_nodes(
    whole: ClusterView,
    table: LockTable,
    living: list[LivingNode],
    budget: BudgetStatus,
    starts: Mapping[str, int],
    asked: int,
) -> ClusterView:
    """Adds to a view what the lock table, the nodes' rows and the grants say.

    starts: of nodes by name, within the last hour. asked: id of the node that was asked.
    """
    partitions_of = {unit: node for unit, node in table.holders.items() if unit not in ROLE_OF_UNIT}
    held = Counter(partitions_of.values())
    sites = Counter[int]()
    for unit, node in partitions_of.items():
        sites[node] += table.sites.get(unit, 0)
    grants = {row.node: row for row in budget.nodes}
    nodes = []
    for member in living:
        row = grants.get(str(member.id))
        nodes.append(
            NodeView(
                id=member.id,
                name=member.name,
                version=member.version,
                started_at=member.started_at,
                here=member.id == asked,
                drained=member.drained,
                partitions=held[member.id],
                sites=sites[member.id],
                roles=tuple(ROLE_OF_UNIT[unit].value for unit in table.held_by(member.id) if unit in ROLE_OF_UNIT),
                grant=None if row is None else row.reserved,
                target=None if row is None else row.target,
                price=None if row is None else row.price,
                spent=None if row is None else row.spent,
                silent_seconds=None if row is None else max(budget.at - row.reported_at, 0.0),
                clock_ahead=None if row is None else row.clock_ahead,
                starts=starts.get(member.name, 0),
            )
        )
    in_force = None if budget.budget is None else budget.in_force
    unheld = whole.partitions - sum(held.values())
    return replace(whole, unheld=unheld, budget=budget.budget, in_force=in_force, nodes=tuple(nodes))
