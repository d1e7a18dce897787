"""Caches the stored contexts of recently polled sites."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from pollerd.storage import SiteContext, SiteStore


class SiteCache:
    """A bounded cache of `SiteContext` in front of the store."""

    def __init__(self, store: SiteStore, capacity: int) -> None:
        self._store, self._capacity = store, capacity
        self._kept: OrderedDict[int, SiteContext] = OrderedDict()
        self._loading: set[int] = set()

    async def get(self, site_ids: Sequence[int]) -> dict[int, SiteContext]:
        """Returns the contexts of the sites; sites that are gone from the store are left out."""
        missing = [i for i in site_ids if i not in self._kept]
        if missing:
            await self._load(missing)
        found = {}
        for site_id in site_ids:
            context = self._kept.get(site_id)
            if context is not None:
                self._kept.move_to_end(site_id)
                found[site_id] = context
        self._trim()
        return found

    async def _load(self, site_ids: Sequence[int]) -> None:
        """Loads the sites; one that is forgotten meanwhile may have been read before its change, and is not kept."""
        self._loading.update(site_ids)
        try:
            loaded = await self._store.contexts(site_ids)
            self._kept.update({i: context for i, context in loaded.items() if i in self._loading})
        finally:
            self._loading.difference_update(site_ids)

    def follow(self, before: SiteContext, after: SiteContext) -> None:
        """Stores the context after a poll that started from `before`, unless the site was changed or forgotten
        meanwhile.
        """
        if self._kept.get(before.site_id) is before:
            self._kept[before.site_id] = after

    def forget(self, site_id: int) -> None:
        """Drops a site that changed in the database."""
        self._kept.pop(site_id, None)
        self._loading.discard(site_id)

    def forget_all(self) -> None:
        """Drops all sites."""
        self._kept.clear()
        self._loading.clear()

    def _trim(self) -> None:
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
