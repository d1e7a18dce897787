"""Reports on the focused crawler's collection: stored counts, and the freshness that the allocator estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.model import PageState
from pollerd.shown import SHOWN, Moment, OldName, Share
from pollerd.storage.crawler.collection import CollectionStatus, CollectionStore

_PIECE = 1_000


@dataclass(frozen=True, slots=True)
class CollectionView:
    """The focused crawler's collection as it stands."""

    __pydantic_config__ = SHOWN
    topic: str
    started_at: Moment
    size: int
    """Pages in the collection."""
    mean_relevance: Share | None
    """Mean over the collected pages; None if there are none."""
    freshness: Share | None
    """Expected share of the collection's relevance whose copy is current, equation (1) of [C]; None: no belief."""
    requests: int
    """Pages requested from the frontier."""
    harvest_rate: Share | None
    """Share of them that were relevant; None before the first."""
    frontier: int
    """Pages known and not requested yet."""
    fringe: OldName
    """The frontier under its older name."""
    hosts: int
    """Hosts of all known pages."""
    pages: Mapping[PageState, int]
    """Pages by state."""


class CollectionReporter:
    """Reports on the collection."""

    def __init__(self, *, store: CollectionStore, scheduler: SchedulerState, clock: Callable[[], float]) -> None:
        self._store, self._scheduler, self._clock = store, scheduler, clock

    async def view(self) -> CollectionView | None:
        """Returns the current collection; None if there never was one.

        Reads the whole collection: about 0.1 s for 10,000 pages. Raises DatabaseUnavailableError.
        """
        status = await self._store.status()
        return None if status is None else _view(status, await self._freshness())

    async def _freshness(self) -> float | None:
        """Returns the mean probability that a page is unchanged since its last poll, weighted by relevance."""
        weight = current = 0.0
        cursor: str | None = None
        while True:
            page = await self._store.list_pages(PageState.COLLECTED, limit=_PIECE, cursor=cursor)
            relevances = [(each.site_id, each.relevance) for each in page.items if each.site_id is not None]
            relevance = np.array([0.0 if value is None else value for _, value in relevances])
            chance = self._unchanged(np.array([site_id for site_id, _ in relevances], np.int64))
            known = np.isfinite(chance)
            weight += float(relevance[known].sum())
            current += float((relevance[known] * chance[known]).sum())
            cursor = page.next_cursor
            if cursor is None:
                return current / weight if weight > 0 else None

    def _unchanged(self, site_ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the probability of each site to be unchanged, [k]; nan without a belief or for unknown sites."""
        sites, chance = self._scheduler.sites, np.full(len(site_ids), np.nan)
        slots = sites.slots_of(site_ids)
        known = slots[slots >= 0]
        elapsed = sites.elapsed(self._clock())[known]
        chance[slots >= 0] = 1.0 - self._scheduler.allocator.change_probability(known, elapsed)
        return chance


def _view(status: CollectionStatus, freshness: float | None) -> CollectionView:
    size = status.pages[PageState.COLLECTED]
    return CollectionView(
        topic=status.topic,
        started_at=status.started_at,
        requests=status.requests,
        harvest_rate=status.enrolled / status.requests if status.requests else None,
        size=size,
        frontier=status.pages[PageState.FRONTIER],
        fringe=status.pages[PageState.FRONTIER],
        pages=status.pages,
        hosts=status.hosts,
        mean_relevance=status.mean_relevance if size else None,
        freshness=freshness,
    )
