"""Follows the news of the other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping

import structlog

from pollerd.daemon.cluster.allocation_follower import AllocationFollower
from pollerd.daemon.cluster.site_follower import SiteFollower
from pollerd.daemon.notifying.notifier import Notifier
from pollerd.daemon.sources.reader import SourceReader
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage import ClusterStore, News, NewsTable

_GATHER_SECONDS = 0.05
"""How long news are gathered before they are looked at together."""
_RETRY_SECONDS = 1.0
_SITES = frozenset({NewsTable.SITE, NewsTable.SITE_MARK})
_NOTIFYING = frozenset({NewsTable.RULE, NewsTable.CHANNEL})


NewsHandler = Callable[[Collection[int] | None], Awaitable[None]]
"""Called with the ids of rows that were written; None: some may have been missed."""


class Follower:
    """Brings each part of this node in step with what was written, by whomever."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        sites: SiteFollower,
        notifier: Notifier,
        sources: SourceReader,
        handlers: Mapping[NewsTable, NewsHandler],
        allocation: AllocationFollower,
        outbox_filled: asyncio.Event,
    ) -> None:
        """handlers: of other tables than are looked at here. outbox_filled: wakes the delivery, if this node has it."""
        self._outbox_filled, self._handlers = outbox_filled, handlers
        self._cluster, self._sites = cluster, sites
        self._notifier, self._sources, self._allocation = notifier, sources, allocation
        self._received: set[News] = set()
        self._all = False
        self._any = asyncio.Event()
        self._log = structlog.get_logger("pollerd.cluster")

    async def run(self) -> None:
        """Follows until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive(self._cluster.listen()), name="news")
            while True:
                await self._any.wait()
                await asyncio.sleep(_GATHER_SECONDS)
                self._any.clear()
                received, self._received = self._received, set()
                everything, self._all = self._all, False
                await self._retried(self._adopt_all if everything else lambda r=received: self._adopt(r))  # type: ignore[misc]

    async def _receive(self, news: AsyncIterator[News | None]) -> None:
        async for one in news:
            if one is None:
                self._all = True
            else:
                self._received.add(one)
            self._any.set()

    async def _retried(self, call: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await call()
            except DatabaseUnavailableError as error:
                self._log.warning("news_put_off", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _adopt_all(self) -> None:
        await self._sites.adopt_all()
        self._allocation.look_again()
        await self._notifier.reload()
        await self._sources.look_again()
        for handler in self._handlers.values():
            await handler(None)
        self._outbox_filled.set()

    async def _adopt(self, received: set[News]) -> None:
        tables = {one.table for one in received}
        sites = sorted({int(one.key) for one in received if one.table in _SITES})
        if sites:
            await self._sites.adopt(sites)
        for name in sorted(one.key for one in received if one.table is NewsTable.TAG):
            await self._sites.adopt_tag(name)
        asked = sorted({int(one.key) for one in received if one.table is NewsTable.POLL_REQUEST})
        self._sites.poll_soon(asked)
        changed = sorted({int(one.key) for one in received if one.table is NewsTable.SETTINGS_POLL})
        self._sites.poll_anew(changed)
        hosts = sorted(int(one.key) for one in received if one.table is NewsTable.HOST_OVERRIDE)
        if hosts:
            await self._sites.adopt_hosts(hosts)
        if tables & _NOTIFYING:
            await self._notifier.reload()
        if NewsTable.OUTBOX in tables:
            self._outbox_filled.set()
        if NewsTable.ALLOCATION in tables:
            self._allocation.look_again()
        if NewsTable.SOURCE in tables:
            await self._sources.look_again()
        for table in tables & self._handlers.keys():
            await self._handlers[table]({int(one.key) for one in received if one.table is table})
