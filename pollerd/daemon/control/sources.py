"""Control of the running daemon's sources."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.sources import SourceReader
from pollerd.storage.sources import Source, SourceSpec, SourceStore

_ALL_OF_IT = ("pattern", "site_limit", "hosts", "most_shrink")
"""Settings after which a source is read anew, and all of it."""
_REMOVED_AT_ONCE = 500


class SourceControl:
    """Changes sources: first in the database, then in memory."""

    def __init__(
        self, *, store: SourceStore, sites: SiteControl, reader: SourceReader, clock: Callable[[], float]
    ) -> None:
        self._store, self._sites, self._reader, self._clock = store, sites, reader, clock

    async def all(self) -> list[Source]:
        """Returns all sources, by id."""
        return await self._store.all()

    async def add(self, spec: SourceSpec, *, after: float = 0.0) -> Source:
        """Adds a source, which is read after so many seconds. Raises DuplicateError with the existing id."""
        now = self._clock()
        source = await self._store.add(spec, now, read_at=now + after)
        self._reader.follow(source)
        return source

    async def update(self, source_id: int, spec: SourceSpec) -> Source:
        """Sets its settings; URL and kind stay. Tags and weight hold for sites that join from now on.

        Raises NotFoundError.
        """
        before = (await self._store.get(source_id)).spec
        spec = replace(spec, url=before.url, kind=before.kind)
        anew = any(getattr(before, name) != getattr(spec, name) for name in _ALL_OF_IT)
        sooner = before.interval != spec.interval
        source = await self._store.update(source_id, spec, read_at=self._clock() if anew or sooner else None)
        self._reader.follow(source)
        return source

    async def delete(self, source_id: int, *, remove_sites: bool = False) -> int:
        """Deletes the source; its sites stay, or go if no other source lists them. Returns how many went.

        A call that is broken off leaves the source paused; a repeated call does the rest. Raises NotFoundError.
        """
        removed = 0
        if remove_sites:
            spec = (await self._store.get(source_id)).spec
            self._reader.follow(await self._store.update(source_id, replace(spec, paused=True), read_at=None))
            while ids := await self._store.removable(source_id, _REMOVED_AT_ONCE):
                await self._sites.discard(ids)
                removed += len(ids)
        await self._store.delete(source_id)
        self._reader.forget(source_id)
        return removed

    async def read_now(self, source_id: int) -> Source:
        """Has the source read as soon as its host and the budget allow. Raises NotFoundError."""
        source = await self._store.ask_read(source_id, self._clock())
        self._reader.follow(source)
        return source
