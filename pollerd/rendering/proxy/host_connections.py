"""At most so many connections to a host at once, over all pages; none of them can keep the others from a host."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

MOST_CONNECTIONS = 6
"""Connections to one host at once, over all pages: what a browser opens."""
_SILENT_SECONDS = 1.0
"""A waiting page takes over a connection that was silent for so long, of a page with more than its share."""
_PATIENCE_SECONDS = 5.0
"""After which it takes over one that is not silent."""


class HeldConnection:
    """A connection that counts at its host, from before it is dialled until it is let go."""

    __slots__ = ("abort", "active_at", "host", "owner")

    def __init__(self, host: str, owner: object, now: float) -> None:
        self.host, self.owner, self.active_at = host, owner, now
        self.abort: Callable[[], object] | None = None
        """Ends the connection; None: it cannot be taken over yet."""


class HostConnections:
    """Counts connections by host (name:port) and owner (a page)."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self._most = most
        self._held: defaultdict[str, set[HeldConnection]] = defaultdict(set)
        self._waiting: defaultdict[str, dict[asyncio.Future[None], object]] = defaultdict(dict)
        self.most_seen = 0
        """The most connections that one host had at once."""

    async def hold(self, host: str, owner: object) -> HeldConnection:
        """Returns a connection's place once the host has one; it must be let go."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while len(self._held[host]) >= self._most:
            free: asyncio.Future[None] = loop.create_future()
            self._waiting[host][free] = owner
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_SILENT_SECONDS):
                        await free
            finally:
                self._stop_waiting(host, free)
            if len(self._held[host]) >= self._most:
                self._take_over(host, owner, impatient=loop.time() - began > _PATIENCE_SECONDS)
        held = HeldConnection(host, owner, loop.time())
        self._held[host].add(held)
        self.most_seen = max(self.most_seen, len(self._held[host]))
        return held

    def let_go(self, held: HeldConnection) -> None:
        """Frees the place for who has waited longest."""
        left = self._held[held.host]
        left.discard(held)
        for free in self._waiting.get(held.host, ()):
            if not free.done():
                free.set_result(None)
                break
        if not left and held.host not in self._waiting:
            del self._held[held.host]

    def _stop_waiting(self, host: str, free: asyncio.Future[None]) -> None:
        waiting = self._waiting[host]
        waiting.pop(free, None)
        if not waiting:
            del self._waiting[host]

    def _take_over(self, host: str, owner: object, *, impatient: bool) -> None:
        """Ends the longest silent connection of another page that has more than its share of the host."""
        held = self._held[host]
        owners = {one.owner for one in held} | {owner}
        share = max(1, self._most // len(owners))
        now = asyncio.get_running_loop().time()
        beyond = [
            one
            for one in held
            if one.owner is not owner
            and one.abort is not None
            and sum(other.owner is one.owner for other in held) > share
            and (impatient or now - one.active_at >= _SILENT_SECONDS)
        ]
        if beyond:
            longest = min(beyond, key=lambda one: one.active_at)
            assert longest.abort is not None
            longest.abort()
