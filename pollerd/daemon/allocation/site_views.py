"""Shows what only the process that polls a site knows of it: at another node it is asked of that one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from pollerd.daemon.allocation.explain import DAY_SECONDS, ScheduleExplainer
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.daemon.state.views import ExplanationView, FeedView, LiveSite
from pollerd.detection import noise_of
from pollerd.errors import HolderUnavailableError, NotFoundError
from pollerd.inheritance import DEFAULT, effective
from pollerd.model import FeedWindow
from pollerd.storage import SiteStore


class AsksHolder(Protocol):
    """Asks the node that holds a site. Each method raises HolderUnavailableError, DatabaseUnavailableError."""

    async def explanation(self, site_id: int) -> ExplanationView:
        """Returns why the site is polled as it is."""

    async def live(self, site_id: int) -> LiveSite:
        """Returns the in-memory values of the site."""


class SiteViews:
    """Views of sites in memory."""

    def __init__(
        self,
        *,
        store: SiteStore,
        scheduler: SchedulerState,
        site_cache: SiteCache,
        explainer: ScheduleExplainer,
        holders: AsksHolder | None,
        clock: Callable[[], float],
    ) -> None:
        """holders: None where the daemon runs alone."""
        self._store, self._scheduler, self._site_cache = store, scheduler, site_cache
        self._explainer, self._holders, self._clock = explainer, holders, clock

    def live(self, site_ids: Sequence[int]) -> dict[int, LiveSite]:
        """Returns the in-memory values of those of the sites that are polled here."""
        return self._explainer.live(site_ids)

    async def shown(self, site_ids: Sequence[int]) -> dict[int, LiveSite]:
        """Returns the values of these sites: from memory, and as they are stored of those that other nodes poll."""
        found = self.live(site_ids)
        elsewhere = [site_id for site_id in site_ids if site_id not in found]
        if self._holders is None or not elsewhere:
            return found
        now = self._clock()
        for site_id, one in (await self._store.stored_forecasts(elsewhere)).items():
            soon = None if one.next_poll_at is None else max(one.next_poll_at, now)
            found[site_id] = LiveSite(one.rate_per_day, soon, one.learned_half_life)
        return found

    async def current(self, site_id: int) -> LiveSite | None:
        """Returns the in-memory values of the site; as they are stored, if the node that holds it gives no answer."""
        if self._holders is not None and not self._is_here(site_id):
            try:
                return await self._holders.live(site_id)
            except HolderUnavailableError:
                pass  # what is stored is at most one commit old
        return (await self.shown([site_id])).get(site_id)

    async def explain(self, site_id: int) -> ExplanationView:
        """Returns why the site is polled as it is. Raises NotFoundError, HolderUnavailableError."""
        if self._holders is None or self._is_here(site_id):
            return await self.explain_here(site_id)
        await self._store.get(site_id)
        return await self._holders.explanation(site_id)

    async def explain_here(self, site_id: int) -> ExplanationView:
        """Returns why the site is polled as it is. Raises NotFoundError if this process does not poll it."""
        explanation = self._explainer.explain(site_id)
        context = (await self._site_cache.get([site_id])).get(site_id)
        if explanation is None or context is None:
            raise NotFoundError("site", site_id)
        origins = effective((await self._store.get(site_id)).spec, self._store.tags)[1]
        if origins.get("half_life") == DEFAULT and self._explainer.is_half_life_learned(site_id):
            origins = {**origins, "half_life": "reads"}
        feed = _feed_view(context.baseline.window, explanation.rate_per_day)
        return replace(explanation, mask=noise_of(context.baseline.mask), origins=origins, feed=feed)

    def _is_here(self, site_id: int) -> bool:
        return self._scheduler.sites.slot_of(site_id) is not None


def _feed_view(window: FeedWindow | None, rate_per_day: float | None) -> FeedView | None:
    """Returns what a feed shows, at a believed rate of items; None for other pages."""
    if window is None:
        return None
    full_after = window.shown / rate_per_day * DAY_SECONDS if window.shown and rate_per_day else None
    return FeedView(
        items=window.items,
        new=window.new,
        limited=window.limited,
        oldest_at=window.oldest_at,
        newest_at=window.newest_at,
        read_at=window.read_at,
        full_polls=window.full_polls,
        full_after=full_after,
    )
