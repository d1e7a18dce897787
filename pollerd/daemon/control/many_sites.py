"""Changes up to a thousand sites at once: first in the database, then in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pollerd.daemon.control.returning import SiteReturn, adopt_stored
from pollerd.daemon.control.site_removal import SiteRemoval
from pollerd.daemon.control.sites import unseen
from pollerd.daemon.state.scheduler_state import SchedulerState, by_render, weight_and_cost
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.errors import InvalidValueError
from pollerd.inheritance import inherit, polled_otherwise
from pollerd.model import Site, SiteSpec
from pollerd.storage import NewSettings, SiteStore

_REMOVED_AT_ONCE = 20
ChangeSpec = Callable[[Site], SiteSpec]
"""Returns the new settings of a site. Raises InvalidValueError if it cannot have them."""


@dataclass
class Planned:
    """What is to be changed of some sites."""

    wanted: dict[int, SiteSpec] = field(default_factory=dict)
    """Site id -> its new settings, of those that differ."""
    before: dict[int, SiteSpec] = field(default_factory=dict)
    """Site id -> its settings now."""
    refused: list[tuple[int, InvalidValueError]] = field(default_factory=list)
    """(site id, reason) of sites that cannot have the new settings."""


class ManySites:
    """Changes many sites. The caller holds `SchedulerState.changing_sites`."""

    def __init__(
        self,
        *,
        store: SiteStore,
        scheduler: SchedulerState,
        site_cache: SiteCache,
        removal: SiteRemoval,
        clock: Callable[[], float],
    ) -> None:
        self._store, self._scheduler, self._site_cache = store, scheduler, site_cache
        self._removal, self._clock = removal, clock
        self._return = SiteReturn(store=store, scheduler=scheduler, clock=self._clock)
        self.changing = scheduler.changing_sites
        """Held while sites are changed."""

    async def plan(self, site_ids: Sequence[int], change: ChangeSpec) -> Planned:
        """Returns what the change makes of those of these sites that are there."""
        planned = Planned()
        for site in await self._store.get_many(site_ids):
            try:
                spec = change(site)
                self._admit(site, spec)
            except InvalidValueError as error:
                planned.refused.append((site.id, error))
                continue
            planned.before[site.id] = site.spec
            if spec != site.spec:
                planned.wanted[site.id] = spec
        return planned

    def _admit(self, site: Site, spec: SiteSpec) -> None:
        """Raises InvalidValueError if the site cannot have these settings."""
        tags = self._store.tags
        if spec.tags != site.spec.tags and (refusal := unseen(spec, tags)) is not None:
            raise refusal
        new = inherit(spec, tags)
        if weight_and_cost(new) != weight_and_cost(inherit(site.spec, tags)):
            try:
                self._scheduler.admit(site.id, *weight_and_cost(new))
            except InvalidValueError as error:
                raise by_render(error, new) from error

    async def pause(self, site_ids: Sequence[int], paused: bool) -> None:
        """Pauses or resumes these sites, and changes nothing else."""
        await self._store.pause_some(site_ids, paused)
        self._scheduler.pause_many(np.array(site_ids, np.int64), paused)
        self._scheduler.due.set()

    async def set_settings(self, wanted: Mapping[int, SiteSpec]) -> None:
        """Gives sites new settings, but for URL and pause; what was learned of them stays."""
        now, ids, tags = self._clock(), sorted(wanted), self._store.tags
        before = {site.id: site.spec for site in await self._store.get_many(ids)} if tags else {}
        await self._store.put_settings([NewSettings(i, wanted[i], resumed=False) for i in ids], now)
        rows, faults = await self._store.schedule_of(ids)
        adopt_stored(self._scheduler, self._site_cache, rows, faults, dict.fromkeys(ids, now))
        otherwise = [i for i, spec in before.items() if polled_otherwise(inherit(spec, tags), inherit(wanted[i], tags))]
        slots = self._scheduler.sites.slots_of(np.array(otherwise, np.int64))
        self._scheduler.poll_anew(slots[slots >= 0])
        await self._scheduler.budget_fit.fit_by_and_by()
        self._scheduler.due.set()

    async def delete(self, site_ids: Sequence[int]) -> None:
        """Marks the sites as deleted: they are polled no more, and their rows stay until they are purged."""
        await self._store.mark(site_ids, self._clock())
        for place, site_id in enumerate(site_ids):
            self._removal.remove(site_id)
            if place % _REMOVED_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def bring_back(self, site_ids: Sequence[int]) -> int:
        """Brings back those of these sites that are marked as deleted; returns how many."""
        back = await self._store.unmark(site_ids)
        await self._return.take_in(site_ids)
        await self._scheduler.budget_fit.fit_to_growth()
        self._scheduler.due.set()
        return len(back)

    async def not_deletable(self, site_ids: Sequence[int]) -> list[int]:
        """Returns those of these sites that only the focused crawler adds and removes."""
        return await self._store.crawled_among(site_ids)

    def poll_soon(self, site_ids: Sequence[int]) -> int:
        """Has the sites polled before all others, as soon as their hosts allow; returns how many are known."""
        table = self._scheduler.sites
        slots = table.slots_of(np.array(site_ids, np.int64))
        slots = slots[slots >= 0]
        table.asap[slots] = True
        table.touch(slots)
        self._scheduler.due.set()
        return len(slots)
