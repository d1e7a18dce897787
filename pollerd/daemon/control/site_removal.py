"""Removes a site that is no longer in the database from memory."""

from __future__ import annotations

from pollerd.daemon.crawler.hook import PageHook
from pollerd.daemon.polling.in_flight import InFlight
from pollerd.daemon.results.announcing.announcer import Announcer
from pollerd.daemon.results.proofs.candidates import Candidates
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache


class SiteRemoval:
    """Removes a site from every part that knows it."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        site_cache: SiteCache,
        candidates: Candidates,
        announcer: Announcer,
        in_flight: InFlight,
        hook: PageHook,
    ) -> None:
        self._scheduler, self._site_cache, self._candidates = scheduler, site_cache, candidates
        self._announcer = announcer
        self._in_flight, self._hook = in_flight, hook

    def remove(self, site_id: int) -> None:
        """Removes the site, if it is known, and cancels its work in flight."""
        slot = self._scheduler.remove(site_id)
        self._hook.forget(site_id)
        self._site_cache.forget(site_id)
        self._candidates.drop(site_id)
        self._announcer.forget(site_id)
        if slot is not None:
            self._in_flight.abandon(slot)
