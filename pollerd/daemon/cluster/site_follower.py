"""Brings memory in step with sites, tags and hosts that other nodes changed in the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.daemon.cluster.partition_loader import PartitionLoader
from pollerd.daemon.control.returning import adopt_stored
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.inheritance import read_by_polls
from pollerd.storage import ClusterStore, ScheduleRows, SiteStore

_AT_ONCE = 1_000


class SiteFollower:
    """Adopts what is stored of sites in the partitions of this node."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        store: SiteStore,
        loader: PartitionLoader,
        scheduler: SchedulerState,
        site_cache: SiteCache,
        clock: Callable[[], float],
    ) -> None:
        self._cluster, self._store, self._loader = cluster, store, loader
        self._scheduler, self._site_cache, self._clock = scheduler, site_cache, clock

    async def adopt(self, site_ids: Sequence[int]) -> None:
        """Adopts these sites as they are stored: new ones, changed ones, and those that are gone."""
        for start in range(0, len(site_ids), _AT_ONCE):
            async with self._scheduler.changing_sites:
                await self._some(sorted(site_ids[start : start + _AT_ONCE]))
        await self._scheduler.budget_fit.fit_to_growth()
        self._scheduler.due.set()

    async def adopt_all(self) -> None:
        """Adopts all sites of the partitions of this node, and all tags: news of some may have been missed."""
        await self._store.load_tags()
        for partition in sorted(self._loader.loaded):
            known = self._loader.sites_of(partition)
            stored: list[int] = []
            async for _, site_ids in self._cluster.contents(partition):
                stored += site_ids
            await self.adopt(sorted({*known, *stored}))

    async def adopt_tag(self, name: str) -> None:
        """Adopts the settings of a tag, which its sites inherit."""
        before = self._store.tags.get(name)
        tags = await self._store.load_tags()
        async for columns, _ in self._store.tagged(name, tags):
            await self.adopt(columns.site_id.tolist())
            if read_by_polls(before) != read_by_polls(tags.get(name)):
                self.poll_anew(columns.site_id.tolist())

    async def adopt_hosts(self, host_ids: Sequence[int]) -> None:
        """Adopts pauses of hosts, and ends of pauses, by hand."""
        hosts = self._scheduler.hosts
        for row in await self._cluster.hosts(host_ids):
            slot = hosts.slot_of(row.name)
            if slot is not None and row.override is not None:
                hosts.override(slot, row.override)
                if not row.override.paused:
                    self._scheduler.end_backoffs(self._scheduler.backing_off_on(slot, self._clock()).tolist())
        self._scheduler.due.set()

    def poll_anew(self, site_ids: Sequence[int]) -> None:
        """Has those of these sites that are here polled before all others, not after their backoffs."""
        slots = self._scheduler.sites.slots_of(np.array(site_ids, np.int64))
        self._scheduler.poll_anew(slots[slots >= 0])
        self._scheduler.due.set()

    def poll_soon(self, site_ids: Sequence[int]) -> None:
        """Has those of these sites that are here polled before all others."""
        slots = self._scheduler.sites.slots_of(np.array(site_ids, np.int64))
        for slot in slots[slots >= 0].tolist():
            self._scheduler.poll_soon(slot)
        self._scheduler.due.set()

    async def _some(self, site_ids: Sequence[int]) -> None:
        partitions = await self._cluster.partitions_of_sites(site_ids)
        rows, faults = await self._store.schedule_of(site_ids)
        stored = set(rows.site_id.tolist())
        moved = self._moved(rows)
        for site_id in site_ids:
            if site_id not in stored or site_id in moved or not self._loader.holds(partitions.get(site_id, -1)):
                self._loader.forget(site_id)
        for partition in {partitions[site_id] for site_id in stored if site_id in partitions}:
            if self._loader.holds(partition):
                of_it = [site_id for site_id in sorted(stored) if partitions.get(site_id) == partition]
                await self._loader.add(partition, of_it)
        self._adopt_settings(rows, faults, await self._cluster.settings_changed_at(site_ids))

    def _moved(self, rows: ScheduleRows) -> set[int]:
        """Returns the ids of sites that are on another host by now."""
        table, hosts = self._scheduler.sites, self._scheduler.hosts
        slots = table.slots_of(rows.site_id)
        known = slots >= 0
        here: NDArray[np.int64] = hosts.host_id[table.host[slots[known]]]
        return set(rows.site_id[known][here != rows.host_id[known]].tolist())

    def _adopt_settings(self, rows: ScheduleRows, faults: dict[int, str], changed_at: dict[int, float]) -> None:
        adopt_stored(self._scheduler, self._site_cache, rows, faults, changed_at)
        for site_id, paused in zip(rows.site_id.tolist(), rows.paused.tolist(), strict=True):
            if self._scheduler.is_paused(site_id) != paused:
                self._scheduler.set_paused(site_id, paused)
