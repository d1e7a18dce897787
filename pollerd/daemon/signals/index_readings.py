"""The sitemaps that indexes list, from their reading until sites are made of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pollerd.storage import SignalOrigin, SignalSource

_MOST_WAITING = 1_000


@dataclass(frozen=True, slots=True)
class IndexReading:
    """What the last reading of a source said of further sitemaps: normalised URLs, in the order of the index."""

    source: SignalSource
    sitemaps: tuple[str, ...]
    complete: bool
    """Whether it lists all: one that is not there any more has left."""


class IndexReadings:
    """Keeps the last reading of each index; the older one is void."""

    def __init__(self) -> None:
        self._waiting: dict[int, IndexReading] = {}
        self._arrived = asyncio.Event()

    def put(self, source: SignalSource, sitemaps: tuple[str, ...], complete: bool) -> None:
        """Takes a reading. One without sitemaps counts, too: it may have been an index before.

        Sitemaps within a sitemap that an index lists are left alone: an index of indexes is none.
        """
        if source.spec.kind != "sitemap" or source.origin is SignalOrigin.INDEX:
            return
        if source.id in self._waiting or len(self._waiting) < _MOST_WAITING:
            self._waiting[source.id] = IndexReading(source, sitemaps, complete)
            self._arrived.set()

    async def next(self) -> IndexReading:
        """Returns the reading that waits longest, once there is one."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.pop(next(iter(self._waiting)))
