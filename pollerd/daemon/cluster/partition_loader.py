"""Brings the sites of a partition into memory, and takes them out again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.daemon.cluster.loans.lender import HostLoans
from pollerd.daemon.control.returning import add_stored, stored_ttls
from pollerd.daemon.control.site_removal import SiteRemoval
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.state.loading import ScheduleLoader
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.storage import ClusterStore, SiteStore
from pollerd.storage.values import HostRow

_SITES_AT_ONCE = 1_000
_REMOVED_AT_ONCE = 50
_DRAIN_STEP_SECONDS = 0.05


class PartitionLoader:
    """Loads and unloads the sites of partitions. The caller holds the partitions' locks."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        sites: SiteStore,
        scheduler: SchedulerState,
        removal: SiteRemoval,
        journal: Journal,
        loans: HostLoans,
        clock: Callable[[], float],
    ) -> None:
        self._cluster, self._store, self._scheduler = cluster, sites, scheduler
        self._removal, self._journal, self._clock = removal, journal, clock
        self._loans = loans
        self._sites_of: dict[int, set[int]] = {}
        self._log = structlog.get_logger("pollerd.cluster")

    @property
    def loaded(self) -> frozenset[int]:
        """Partitions whose sites are in memory."""
        return frozenset(self._sites_of)

    def holds(self, partition: int) -> bool:
        """Returns whether the partition's sites are in memory."""
        return partition in self._sites_of

    def sites_of(self, partition: int) -> frozenset[int]:
        """Returns the ids of the partition's sites in memory."""
        return frozenset(self._sites_of.get(partition, ()))

    async def load(self, partition: int, quiet_seconds: float) -> int:
        """Brings the sites of a partition in; returns how many.

        quiet_seconds: how long requests of a holder that died may still be under way; no host is asked before they end.
        Raises DatabaseUnavailableError; then nothing of it is in memory.
        """
        self._sites_of[partition] = ids_here = set[int]()
        try:
            await self._load(partition, quiet_seconds)
        except BaseException:
            self.drop(partition)
            raise
        return len(ids_here)

    async def _load(self, partition: int, quiet_seconds: float) -> None:
        scheduler = self._scheduler
        async with scheduler.changing_sites:
            async for hosts, site_ids in self._cluster.contents(partition):
                ids = np.array([host.id for host in hosts], np.int64)
                known = scheduler.hosts.slots_of_ids(ids)
                for column in (scheduler.hosts.paused_until, scheduler.hosts.throttles):
                    column[known[known >= 0]] = 0  # of an earlier time in which this node held them
                self._add_hosts(hosts, all_hosts=quiet_seconds > 0)
                for start in range(0, len(site_ids), _SITES_AT_ONCE):
                    await self.add(partition, site_ids[start : start + _SITES_AT_ONCE], quiet_seconds)
        self._loans.open(partition, quiet_seconds)
        await scheduler.budget_fit.fit_to_growth()
        scheduler.due.set()

    def _add_hosts(self, hosts: Sequence[HostRow], *, all_hosts: bool) -> None:
        """Brings hosts in; another process may have asked them until now (see `HostTable.asked_until`)."""
        table = self._scheduler.hosts
        loader = ScheduleLoader(self._scheduler)
        loader.add_hosts(hosts)
        here = table.slots_of_ids(np.array([host.id for host in hosts], np.int64)).astype(np.int64)
        loader.set_hosts_right(here, self._clock())
        table.asked_until(here, self._clock(), all_hosts=all_hosts)

    async def _add_missing_hosts(self, host_ids: NDArray[np.int64]) -> None:
        """Brings in those of these hosts that are not in memory: their first sites were added at another node."""
        missing = np.unique(host_ids[self._scheduler.hosts.slots_of_ids(host_ids) < 0])
        if len(missing):
            self._add_hosts(await self._cluster.hosts(missing.tolist()), all_hosts=False)

    async def add(self, partition: int, site_ids: Sequence[int], quiet_seconds: float = 0.0) -> None:
        """Brings sites of a loaded partition in, ascending; those in memory already, or not stored, are skipped."""
        scheduler = self._scheduler
        ids = np.array(site_ids, np.int64)
        missing = ids[scheduler.sites.slots_of(ids) < 0].tolist()
        rows, faults = await self._store.schedule_of(missing)
        learned = await self._store.learned_of(scheduler.allocator_name, missing)
        ttls = await stored_ttls(scheduler, self._store, rows)
        await self._add_missing_hosts(rows.host_id)
        here = self._sites_of.get(partition)
        if here is None or not len(rows):
            return
        slots = add_stored(scheduler, rows, faults, learned, ttls, now=self._clock())
        here.update(rows.site_id.tolist())
        if quiet_seconds:
            quiet = self._clock() + quiet_seconds
            scheduler.sites.not_before[slots] = np.maximum(scheduler.sites.not_before[slots], quiet)
            scheduler.sites.touch(slots)

    async def unload(self, partition: int, patience: float) -> None:
        """Takes the sites of a partition out. Polls in flight have `patience` seconds to end and be committed.

        Those that do not are called off: they never happened. Requests of others to hosts of it have as long to end;
        see `lent`.
        """
        self._loans.close(partition)
        left = self._sites_of.pop(partition, set())
        sites = self._scheduler.sites
        until = time.monotonic() + patience
        while left or (self.lent(partition) and time.monotonic() < until):
            done = 0
            for site_id in sorted(left):
                slot = sites.slot_of(site_id)
                if slot is None or not sites.in_flight[slot] or time.monotonic() >= until:
                    self._removal.remove(site_id)
                    left.discard(site_id)
                    done += 1
                    if done % _REMOVED_AT_ONCE == 0:
                        await asyncio.sleep(0)
            if left or self.lent(partition):
                await self._journal.flush()
                await asyncio.sleep(_DRAIN_STEP_SECONDS)
        await self._journal.flush()
        await self._scheduler.budget_fit.fit_by_and_by()

    def drop(self, partition: int) -> None:
        """Takes the sites of a partition out at once, because another node holds it; what was not committed is lost."""
        self._loans.lose(partition)
        for site_id in sorted(self._sites_of.pop(partition, ())):
            self._removal.remove(site_id)

    def close(self, partition: int) -> None:
        """Lends no more hosts of a partition; its sites stay."""
        self._loans.close(partition)

    def lent(self, partition: int) -> bool:
        """Returns whether a request of a site of another partition may be under way to a host of this one."""
        return self._loans.lent(partition)

    def forget(self, site_id: int) -> None:
        """Takes one site out that is gone."""
        for here in self._sites_of.values():
            here.discard(site_id)
        self._removal.remove(site_id)
