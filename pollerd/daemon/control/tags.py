"""Control of the settings that the sites of a tag inherit, in the database and then in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import numpy as np
import structlog
from msgspec.structs import replace

from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.stages import SiteCache
from pollerd.daemon.unchanged import note_unchanged
from pollerd.errors import NotFoundError
from pollerd.inheritance import read_by_polls
from pollerd.site_settings import Tags, TagSettings
from pollerd.storage.tags import TagStore
from pollerd.storage.values import Rebase, SettingsColumns
from pollerd.texts import N_

_AT_ONCE = 1_000
"""Sites that get their new settings before the loop runs on: some milliseconds."""


class TagControl:
    """Settings of tags. A tag may have settings before it has sites, and sites without settings."""

    def __init__(
        self, *, store: TagStore, scheduler: SchedulerState, site_cache: SiteCache, clock: Callable[[], float]
    ) -> None:
        self._store, self._scheduler, self._site_cache, self._clock = store, scheduler, site_cache, clock
        self._log = structlog.get_logger("pollerd.control")

    def all(self) -> Tags:
        """Returns the tags that have settings, by name."""
        return self._store.in_force

    def get(self, name: str) -> TagSettings:
        """Returns the settings of a tag. Raises NotFoundError."""
        settings = self._store.in_force.get(name)
        if settings is None:
            raise NotFoundError(N_("tag"), name)
        return settings

    async def put(self, settings: TagSettings, *, by: str, rebase: Rebase | None = None) -> TagSettings:
        """Gives the tag these settings in place of those that it had, and to its sites what follows from them.

        They are in force once the tag's row is committed: sites get them in pieces, and at a start from the row. `by`:
        the user, for the log. rebase: as for `SiteChanges`. Raises InvalidValueError if the active allocator cannot
        hold the sites with them.
        """
        async with self._scheduler.changing_sites:
            before = self._store.in_force.get(settings.name)
            if before is not None and not before.fault and _said(before) == _said(settings):
                return before
            tag = replace(settings, changed_at=self._clock(), fault="")
            await self._change(tag.name, tag, rebase)
        self._log.warning("tag_set", tag=tag.name, settings=", ".join(tag.settings), by=by)
        return tag

    async def delete(self, name: str, *, by: str) -> None:
        """Takes the settings of a tag away; its sites keep the tag. Raises NotFoundError."""
        async with self._scheduler.changing_sites:
            self.get(name)
            await self._change(name, None)
        self._log.warning("tag_settings_removed", tag=name, by=by)

    async def _change(self, name: str, tag: TagSettings | None, rebase: Rebase | None = None) -> None:
        before = self._store.in_force.get(name)
        after = {other: settings for other, settings in self._store.in_force.items() if other != name}
        after |= {} if tag is None else {name: tag}
        pieces = [piece async for piece in self._store.tagged(name, after)]
        for columns, _faults in pieces:
            self._scheduler.admit_settings(columns)
            await asyncio.sleep(0)
        sends = read_by_polls(before) != read_by_polls(tag)
        now = self._clock() if tag is None or tag.changed_at is None else tag.changed_at
        try:
            if tag is None:
                await self._store.delete(name, now, sends=sends)
            else:
                await self._store.put(tag, sends=sends, rebase=rebase)
        except BaseException:
            self._site_cache.forget_all()
            raise
        for columns, faults in pieces:
            for start in range(0, len(columns), _AT_ONCE):
                self._adopt(columns.part(slice(start, start + _AT_ONCE)), faults, now, sent_anew=sends)
                await asyncio.sleep(0)
        await self._scheduler.budget_fit.fit_in_steps()
        self._scheduler.due.set()

    def _adopt(self, columns: SettingsColumns, faults: Mapping[int, str], now: float, *, sent_anew: bool) -> None:
        ids = columns.site_id.tolist()
        self._scheduler.adopt_settings(columns, {i: faults[i] for i in faults.keys() & set(ids)})
        slots = self._scheduler.sites.slots_of(columns.site_id)
        note_unchanged(self._scheduler, slots[slots >= 0], self._clock())
        if sent_anew:
            for site_id in np.asarray(columns.site_id)[slots >= 0].tolist():
                self._scheduler.settings_pending[site_id] = now
                self._site_cache.forget(site_id)
            self._scheduler.poll_anew(slots[slots >= 0])


def _said(tag: TagSettings) -> tuple[object, object]:
    return dict(tag.settings), tag.access
