"""Finds sites that have failed for as long as a rule says, between polls: a site backs off for up to a day."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import structlog

from pollerd.daemon.results.announcing.announcer import Announcer
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.errors import DatabaseUnavailableError
from pollerd.events import Incident, Notice
from pollerd.model import OutcomeKind
from pollerd.storage import Store

if TYPE_CHECKING:  # a daemon without rules loads none of it
    from pollerd.daemon.results.announcing.rules_in_force import RulesInForce

_LOOK_SECONDS = 60.0
_AT_ONCE = 500


class FailingWatch:
    """Looks at all failing sites, a minute after the last look, while a rule asks for a time."""

    def __init__(
        self,
        *,
        store: Store,
        scheduler: SchedulerState,
        announcer: Announcer,
        journal: Journal,
        site_cache: SiteCache,
        filled: asyncio.Event,
        runtime: Runtime,
    ) -> None:
        """`filled`: set when notices were added."""
        self._store, self._scheduler, self._announcer = store, scheduler, announcer
        self._journal, self._site_cache, self._filled = journal, site_cache, filled
        self._clock = runtime.clock
        self._log = structlog.get_logger("pollerd.notifications")

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            rules = self._announcer.rules
            if not rules or rules.shortest_patience is None:
                continue
            try:
                await self.look(rules, rules.shortest_patience)
            except DatabaseUnavailableError as error:
                self._log.warning("failing_sites_not_looked_at", reason=str(error))

    async def look(self, rules: RulesInForce, patience: float) -> None:
        """Opens incidents of sites that fail for at least `patience` seconds. Raises DatabaseUnavailableError."""
        sites, now = self._scheduler.sites, self._clock()
        failing = np.flatnonzero((sites.failures[: sites.size] > 0) & (sites.last_seen[: sites.size] <= now - patience))
        ids = [int(one) for one in sites.site_id[failing] if one >= 0]
        for start in range(0, len(ids), _AT_ONCE):
            await self._look_at(rules, ids[start : start + _AT_ONCE], now)

    async def _look_at(self, rules: RulesInForce, ids: list[int], now: float) -> None:
        from pollerd.daemon.results.announcing.incident_notices import SiteStanding, incident_notices
        from pollerd.notifications.rules.incidents import SiteHealth

        async with self._journal.quiesced():  # else a poll could open the same incident meanwhile
            contexts = await self._site_cache.get(ids)
            notices, opened = list[Notice](), list[Incident]()
            for site in await self._store.sites.get_many(ids):
                context, slot = contexts.get(site.id), self._scheduler.sites.slot_of(site.id)
                if context is None or slot is None or not site.failures:
                    continue
                seen = float(self._scheduler.sites.last_seen[slot])
                since = seen if seen > 0 else site.created_at
                health = SiteHealth(site.failures, max(now - since, 0.0), site.last_outcome or OutcomeKind.TIMEOUT)
                found = incident_notices(rules, SiteStanding(context, health, since, site.last_detail, now), now)
                notices += found.notices
                opened += found.opened
            if opened:
                await self._store.notifications.put(notices, incidents=opened)
                rules.opened(opened)
        if notices:
            self._filled.set()
