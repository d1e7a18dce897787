"""The live loop, which runs the parts concurrently until stopped."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import structlog

from pollerd.daemon.commit import Journal
from pollerd.daemon.control.control import Control
from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.faults import RETRY_CAP_SECONDS
from pollerd.daemon.gauges import Gauges
from pollerd.daemon.hubs import HubSubscriber
from pollerd.daemon.nodes.membership import ClusterPart
from pollerd.daemon.notifier import Notifier
from pollerd.daemon.outage_filter import OutageFilter
from pollerd.daemon.poll import InFlight, Poller
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.shadows import Shadows
from pollerd.daemon.signal_reader import IndexChildren
from pollerd.daemon.signals import SignalSources
from pollerd.daemon.sources import SourceReader
from pollerd.daemon.unchanged import keep_quiet_known
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.fetching.fetcher import Fetcher
from pollerd.partitions import NodeRole
from pollerd.scheduling.choice import Chooser
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.store import Store
from pollerd.texts import _

if TYPE_CHECKING:  # loaded where a browser is named
    from pollerd.rendering.renderer import Renderer

_MAINTENANCE_LEAST_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of one daemon, assembled by `pollerd.app.build`."""

    runtime: Runtime
    store: Store
    scheduler: SchedulerState
    chooser: Chooser
    fetcher: Fetcher
    renderer: Renderer | None
    poller: Poller
    in_flight: InFlight
    outage_filter: OutageFilter
    journal: Journal
    hook: PageHook | None
    shadows: Shadows
    sources: SourceReader
    signals: SignalSources
    hubs: HubSubscriber
    index_children: IndexChildren
    notifier: Notifier
    gauges: Gauges
    cluster: ClusterPart | None
    """Takes part in a cluster; None: the daemon is alone."""
    control: Control


class Daemon:
    """Polls until stopped: started by `run`, ended by `stop`."""

    def __init__(self, parts: Parts) -> None:
        self.parts, self.control = parts, parts.control
        self._stop = asyncio.Event()
        self._log = structlog.get_logger("pollerd.daemon")

    def stop(self) -> None:
        """Stops the daemon; may be called at any time and repeatedly."""
        self._stop.set()

    def adopt(self, scheduling: SchedulingSettings, *, full_get_every: int) -> None:
        """Applies new settings; work in flight ends under the old ones."""
        scheduler = self.parts.scheduler
        self.parts.poller.full_get_every = full_get_every
        if scheduling != scheduler.settings:
            self.parts.chooser.settings = scheduling
            scheduler.adopt(scheduling)
        scheduler.retry_blocked(np.arange(scheduler.sites.size))
        scheduler.due.set()

    async def run(self) -> None:
        """Polls until `stop`; then waits for polls in flight, commits, and marks the run as ended cleanly.

        Any task that fails ends the daemon with its exception (in an ExceptionGroup).
        """
        try:
            clean = await self._run()
        finally:
            await self.parts.in_flight.call_off()
            self.parts.runtime.workers.close()
            self.parts.runtime.templates.close()
        if clean:
            await self._note_clean_end()
        if self.parts.cluster is not None:
            await self._leave(self.parts.cluster)

    async def _note_clean_end(self) -> None:
        """Marks the run as ended; everything is committed. If this write fails, the next start treats the run as
        crashed.
        """
        try:
            await self.parts.store.runs.end(self.parts.runtime.clock())
        except DatabaseUnavailableError as error:
            self._log.warning("end_not_stored", reason=str(error))

    async def _leave(self, cluster: ClusterPart) -> None:
        """Hands everything over. If this fails, the end of the session does, and others wait as after a death."""
        try:
            await cluster.leave()
        except DatabaseUnavailableError as error:
            self._log.warning("not_handed_over", reason=str(error))

    async def _run(self) -> bool:
        """Returns whether the stop was clean: all started polls were committed."""
        parts = self.parts
        async with asyncio.TaskGroup() as group:
            roles = parts.runtime.roles
            journal = group.create_task(parts.journal.run(), name="journal")
            poller = group.create_task(parts.poller.run(), name="poller")
            sources = group.create_task(roles.while_held(NodeRole.SOURCES, parts.sources.run), name="sources")
            notifier = group.create_task(parts.notifier.run(), name="notifier")
            others = [
                group.create_task(self._watch_polls(), name="watch-polls"),
                group.create_task(roles.while_held(NodeRole.RETENTION, self._maintain), name="maintenance"),
                group.create_task(parts.gauges.follow_forecast(), name="forecast"),
                group.create_task(parts.gauges.follow_collection(), name="collection"),
                group.create_task(keep_quiet_known(parts.scheduler, parts.runtime.clock), name="quiet"),
                group.create_task(self._shadow(), name="shadows"),
                group.create_task(roles.while_held(NodeRole.JOBS, self.control.jobs.run), name="jobs"),
                group.create_task(roles.while_held(NodeRole.HUBS, parts.hubs.run), name="hubs"),
                group.create_task(parts.hubs.follow(), name="pushed-sources"),
                group.create_task(self.control.index_now.run(), name="indexnow"),
                group.create_task(parts.index_children.run(), name="index-children"),
            ]
            if parts.hook is not None:
                others.append(group.create_task(parts.hook.run(), name="crawler"))
            if parts.cluster is not None:
                others.append(group.create_task(parts.cluster.run(), name="cluster"))
            await self._stop.wait()
            poller.cancel()
            sources.cancel()
            drained = await parts.in_flight.drain(parts.runtime.settings.drain_seconds)
            parts.outage_filter.close()
            parts.journal.close()
            committed = await self._last_commit(journal)
            notifier.cancel()
            for task in others:
                task.cancel()
        return drained and committed

    async def _last_commit(self, journal: asyncio.Task[None]) -> bool:
        patience = max(self.parts.runtime.settings.drain_seconds, 1.0)
        done, _unfinished = await asyncio.wait([journal], timeout=patience)
        if not done:
            reason = self.parts.runtime.health.failure or _(
                "the last commit did not end within {patience:g} s", patience=patience
            )
            self._log.error("stopped_uncommitted", reason=reason)
            journal.cancel()
        return bool(done)

    async def _watch_polls(self) -> None:
        """Raises the exception of a failed poll task: an internal fault ends the daemon."""
        await self.parts.in_flight.failed

    async def _shadow(self) -> None:
        if self.parts.runtime.settings.shadows:
            await self._begin_shadows()
        await self.parts.shadows.run()

    async def _begin_shadows(self) -> None:
        while True:
            try:
                await self.control.allocation.set(shadows=self.parts.runtime.settings.shadows)
            except DatabaseUnavailableError as error:
                self._log.warning("shadows_put_off", reason=str(error))
                await asyncio.sleep(RETRY_CAP_SECONDS)
            except InvalidValueError as error:
                self._log.error("shadows_refused", reason=str(error), effect="polling continues without them")
                return
            else:
                return

    async def _maintain(self) -> None:
        """Prunes periodically, earlier when many changes are found, but always after a pause."""
        most, store = self.parts.runtime.settings.maintenance_seconds, self.parts.store
        least = min(most, _MAINTENANCE_LEAST_SECONDS)
        while True:
            await asyncio.sleep(least)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(most - least):
                    await store.crowded()
            try:
                pruned = await store.prune(self.parts.runtime.clock())
            except DatabaseUnavailableError as error:
                self._log.warning("maintenance_put_off", reason=str(error))
            else:
                self._log.info(
                    "pruned",
                    polls=pruned.polls,
                    changes=pruned.changes,
                    contents=pruned.contents,
                    bytes=pruned.content_bytes,
                )
