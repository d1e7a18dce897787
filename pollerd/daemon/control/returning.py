"""Takes what is stored of sites into memory while the daemon runs: whole sites, or their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.daemon.state.believed_unchanged import note_quiet, recall_ttls
from pollerd.daemon.state.loading import ScheduleLoader
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.errors import InvalidValueError
from pollerd.model import NUMERIC_SETTINGS
from pollerd.storage import ScheduleRows, SettingsColumns, SiteStore, StoredTtls

_AT_ONCE = 1_000


class SiteReturn:
    """Takes stored sites into memory while the daemon runs, as a start does."""

    def __init__(self, *, store: SiteStore, scheduler: SchedulerState, clock: Callable[[], float]) -> None:
        self._store, self._scheduler, self._clock = store, scheduler, clock

    async def take_in(self, site_ids: Sequence[int]) -> None:
        """Takes these sites in, ascending; those that are in memory already, or not stored, are skipped."""
        if not self._scheduler.alone:  # the database tells the node that polls them
            return
        ids = np.array(site_ids, np.int64)
        missing = ids[self._scheduler.sites.slots_of(ids) < 0].tolist()
        for start in range(0, len(missing), _AT_ONCE):
            await self._some(missing[start : start + _AT_ONCE])

    async def _some(self, site_ids: Sequence[int]) -> None:
        scheduler = self._scheduler
        rows, faults = await self._store.schedule_of(site_ids)
        if not len(rows):
            return
        sites = await self._store.get_many(rows.site_id.tolist())
        names = {site.id: site.host for site in sites}
        pairs = zip(rows.host_id.tolist(), rows.site_id.tolist(), strict=True)
        scheduler.hosts.add_many([(host_id, names.get(site_id, "")) for host_id, site_id in pairs])
        learned = await self._store.learned_of(scheduler.allocator_name, site_ids)
        ttls = await stored_ttls(scheduler, self._store, rows)
        add_stored(scheduler, rows, faults, learned, ttls, now=self._clock())


async def stored_ttls(scheduler: SchedulerState, store: SiteStore, rows: ScheduleRows) -> StoredTtls | None:
    """Returns what these sites announced; None if none of them is left alone for it.

    Raises DatabaseUnavailableError.
    """
    if not scheduler.settings.respect_ttl and not (rows.respect_ttl > 0).any():
        return None
    return await store.announced_ttls_of(rows.site_id.tolist())


def add_stored(
    scheduler: SchedulerState,
    rows: ScheduleRows,
    faults: Mapping[int, str],
    learned: Sequence[tuple[int, bytes]],
    ttls: StoredTtls | None,
    *,
    now: float,
) -> NDArray[np.int64]:
    """Adds sites whose hosts are in memory; returns their slots int64[k].

    faults: see `ScheduleLoader.add_sites`. learned: (site id, state); unusable ones are learned anew. ttls: as from
    `stored_ttls`. now: epoch s; later times are of a clock that ran ahead.
    """
    loader = ScheduleLoader(scheduler)
    loader.add_sites(rows, faults)
    slots = scheduler.sites.slots_of(rows.site_id).astype(np.int64)
    loader.set_sites_right(slots, now)
    scheduler.sites.touch(slots)
    try:
        scheduler.restore_learned(learned)
    except InvalidValueError as error:
        log = structlog.get_logger("pollerd.control")
        log.warning("learned_state_unusable", sites=len(learned), reason=str(error), instead="learning anew")
    if ttls is not None:
        recall_ttls(scheduler, ttls)
    note_quiet(scheduler, slots)
    return slots


def adopt_stored(
    scheduler: SchedulerState,
    site_cache: SiteCache,
    rows: ScheduleRows,
    faults: Mapping[int, str],
    changed_at: Mapping[int, float],
) -> None:
    """Gives sites in memory the settings that are stored; their next polls are full ones. Others are skipped.

    changed_at: site id -> when its settings changed, as it is stored: a poll that was prepared before does not start.
    """
    numbers = {name: getattr(rows, name) for name in NUMERIC_SETTINGS}
    scheduler.adopt_settings(SettingsColumns(rows.site_id, numbers, rows.windows), faults)
    slots = scheduler.sites.slots_of(rows.site_id)
    known = slots >= 0
    for site_id in rows.site_id.tolist():
        site_cache.forget(site_id)
    for site_id in changed_at.keys() & set(rows.site_id[known].tolist()):
        scheduler.settings_pending[site_id] = changed_at[site_id]
    note_quiet(scheduler, slots[known])
