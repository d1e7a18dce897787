"""Views of the nodes of a database: those that are present, their partitions and budgets, and the polls of all."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from pollerd.daemon.nodes.calls import NodeClient
from pollerd.daemon.views import ClusterView, NodeStatus, NodeView, PollFeed
from pollerd.errors import DatabaseUnavailableError, HolderUnavailableError
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


# Polls of all nodes, as they are committed: while a client watches, the other nodes are asked for theirs.

_ASK_SECONDS = 1.0
_LOOK_SECONDS = 5.0
"""Between two looks who is there."""
_STATUS_SECONDS = 10.0
"""How long what a node said of itself holds."""
_MAX_POLLS = 10


class ClusterPollFeed(PollFeed):
    """Hands on the polls of this node and of the others, and what the others say of themselves."""

    def __init__(self, own: PollFeed, client: NodeClient) -> None:
        super().__init__()
        self._own, self._client = own, client
        self._task: asyncio.Task[None] | None = None
        self._said: dict[int, tuple[float, NodeStatus]] = {}
        self._log = structlog.get_logger("pollerd.cluster")

    def others(self) -> Sequence[NodeStatus]:
        """Returns what the other nodes said of themselves within the last seconds; empty while nobody watches."""
        now = time.monotonic()
        return [status for at, status in self._said.values() if now - at < _STATUS_SECONDS]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keeps polls, and asks the other nodes, while the block runs."""
        with self._own.watching(), super().watching():
            if self._task is None:
                self._task = asyncio.create_task(self._gather(), name="polls of all nodes")
            try:
                yield
            finally:
                self._end_if_last()

    def _end_if_last(self) -> None:
        if self.watchers == 1 and self._task is not None:
            self._task.cancel()
            self._task = None
            self._said.clear()

    async def _gather(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._gather_own())
            following: dict[int, asyncio.Task[None]] = {}
            while True:
                for node in await self._others():
                    if node.id not in following or following[node.id].done():
                        following[node.id] = group.create_task(self._follow(node))
                await asyncio.sleep(_LOOK_SECONDS)

    async def _others(self) -> list[LivingNode]:
        try:
            return await self._client.others()
        except DatabaseUnavailableError:
            return []  # those that are known go on being asked; the next look finds new ones

    async def _gather_own(self) -> None:
        position = self._own.position
        while True:
            found = self._own.since(position, _MAX_POLLS)
            self.add(found.polls, found.skipped)
            position = found.position
            await asyncio.sleep(_ASK_SECONDS / 2)

    async def _follow(self, node: LivingNode) -> None:
        """Asks one node until it gives no answer; the next look at who is there begins again."""
        position: int | None = None
        while True:
            try:
                found = await self._client.watch(node, position)
            except HolderUnavailableError as error:
                self._log.info("polls_of_node_missing", node=node.name, reason=str(error))
                return
            self._said[node.id] = (time.monotonic(), found.status)
            self.add(found.polls, found.skipped)
            position = found.position
            await asyncio.sleep(_ASK_SECONDS)
