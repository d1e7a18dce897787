"""Makes sites and signal sources of the sitemaps that an index lists, and removes them when they leave it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

import structlog

from pollerd.daemon.signals.index_readings import IndexReading, IndexReadings
from pollerd.daemon.signals.signal_control import SignalControl
from pollerd.daemon.state.storage_health import RETRY_CAP_SECONDS
from pollerd.errors import DatabaseUnavailableError, DuplicateError, InvalidValueError, NotFoundError
from pollerd.model import SiteSpec
from pollerd.storage import AddResult, SignalSource, SignalSourceSpec, SignalStore

MOST_CHILDREN = 500
"""Sitemaps of one index that become sites: the first ones."""


class ChangesSites(Protocol):
    """Adds and removes sites."""

    async def add(self, specs: Sequence[SiteSpec], *, respect_deleted: bool = False) -> AddResult:
        """Adds sites; `respect_deleted`: leaves out what a user deleted."""

    async def discard(self, site_ids: Sequence[int]) -> None:
        """Deletes sites without marking their URLs as deleted."""


class IndexChildren:
    """Brings the sitemaps of each index in step with its last reading, one index at a time."""

    def __init__(
        self, *, readings: IndexReadings, store: SignalStore, control: SignalControl, sites: ChangesSites
    ) -> None:
        self._readings, self._store, self._control, self._sites = readings, store, control, sites
        self._log = structlog.get_logger("pollerd.signals")

    async def run(self) -> None:
        """Follows the readings until cancelled; sleeps while there is none."""
        await self._retried(self._remove_orphans)
        while True:
            reading = await self._readings.next()
            await self._retried(partial(self.apply, reading))

    async def _retried(self, call: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await call()
            except DatabaseUnavailableError as error:
                self._log.warning("sitemaps_put_off", reason=str(error))
                await asyncio.sleep(RETRY_CAP_SECONDS)
            else:
                return

    async def apply(self, reading: IndexReading) -> None:
        """Adds the sitemaps that are new in an index; removes those that left it, and those of indexes that are gone.

        Raises DatabaseUnavailableError; a repeated call does the rest.
        """
        sources = await self._remove_orphans()
        if reading.source.id not in {source.id for source in sources}:
            return
        children = [one for one in sources if one.index_id == reading.source.id]
        listed = reading.sitemaps[:MOST_CHILDREN]
        left = [one for one in children if reading.complete and one.url not in reading.sitemaps]
        for child in left:
            await self._remove(child)
        known = {source.url for source in sources}
        room = max(MOST_CHILDREN - len(children) + len(left), 0)
        added = [url for url in listed if url not in known][:room]
        made = [url for url in added if await self._add(reading.source, url)]
        if made or left:
            self._log.info("sitemaps_followed", source=reading.source.id, added=len(made), left=len(left))
        over = len(reading.sitemaps) - len(listed)
        if over > 0 and made:
            self._log.warning("sitemaps_left_out", source=reading.source.id, number=over, most=MOST_CHILDREN)

    async def _add(self, index: SignalSource, url: str) -> bool:
        """Adds a sitemap's site, if it is none, and makes it a signal source."""
        result = await self._sites.add([SiteSpec(url)], respect_deleted=True)
        made_site = bool(result.added)
        site_id = next((site_id for site_id, *_ in (*result.added, *result.existing)), None)
        if site_id is None:  # a user deleted it, or the allocator cannot hold it
            return False
        spec = SignalSourceSpec("sitemap", site_id, hosts=index.spec.hosts)
        try:
            await self._control.add_child(spec, index_id=index.id, made_site=made_site)
        except (DuplicateError, InvalidValueError):  # it is one already, or its site went meanwhile
            return False
        return True

    async def _remove_orphans(self) -> list[SignalSource]:
        """Removes sitemaps of indexes that are no signal sources any more; returns the sources that stay."""
        sources, stay = await self._store.all(), list[SignalSource]()
        there = {None, *(source.id for source in sources)}
        for one in sources:
            if one.index_id in there:
                stay.append(one)
            else:
                await self._remove(one)
        return stay

    async def _remove(self, child: SignalSource) -> None:
        if child.made_site and child.spec.site_id is not None:
            await self._sites.discard([child.spec.site_id])  # with what it is as a signal source
            self._control.forget(child)
            return
        with contextlib.suppress(NotFoundError):
            await self._control.remove(child.id)
