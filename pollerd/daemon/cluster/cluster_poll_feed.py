"""The polls of all nodes, as they are committed: while somebody watches, the other nodes are asked for theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from pollerd.daemon.cluster.node_client import NodeClient
from pollerd.daemon.results.poll_feed import PollFeed
from pollerd.daemon.state.views import NodeStatus
from pollerd.errors import DatabaseUnavailableError, HolderUnavailableError
from pollerd.storage import LivingNode

_ASK_SECONDS = 1.0
_LOOK_SECONDS = 5.0
"""Between two looks who is there."""
_STATUS_SECONDS = 10.0
"""How long what a node said of itself holds."""
_MOST_POLLS = 10


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
        if self._watchers == 1 and self._task is not None:
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
            found = self._own.since(position, _MOST_POLLS)
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
