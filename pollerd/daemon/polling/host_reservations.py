"""Reserves the hosts that a redirected request visits, with the same spacing as polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pollerd.scheduling import HostTable

WAIT_SECONDS = 5.0
"""Longest wait of a request for a host."""
_RETRY_SECONDS = 0.05


class HostReservations:
    """The hosts that a request holds: its own, and those it was redirected to."""

    __slots__ = ("_clock", "_held", "_hosts", "_own")

    def __init__(self, *, hosts: HostTable, own: int, clock: Callable[[], float]) -> None:
        """`own`: the host slot of the request, which the caller reserves and frees."""
        self._hosts, self._own, self._clock = hosts, own, clock
        self._held: list[int] = []

    def holds(self, host: int) -> bool:
        """Returns whether the request already holds the host slot."""
        return host == self._own or host in self._held

    async def wait(self, host: int, deadline: float) -> bool:
        """Queues for another host slot until it may be requested; False if that is after the deadline (epoch s)."""
        self._hosts.lines.join(host, self)
        try:
            while not self._hosts.may_start(host, now := self._clock(), self):
                if max(self._hosts.ready_at_of(host), now) > deadline:
                    return False
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._hosts.lines.leave(host, self)
        return True

    def take(self, host: int, now: float) -> None:
        """Reserves the other host slot from now (epoch s) on."""
        self._hosts.start(host, now)
        self._held.append(host)

    async def spacing(self, host: int) -> None:
        """Waits between two requests to a held host slot, as long as between two polls of it.

        Waits at most WAIT_SECONDS: with a longer spacing the poll would time out.
        """
        wait = self._hosts.spacing_left(host, self._clock())
        if wait > 0:
            await asyncio.sleep(min(wait, WAIT_SECONDS))

    def note_written(self) -> None:
        """Notes that the other hosts may have been requested until now."""
        now = self._clock()
        for host in self._held:
            self._hosts.last_start[host] = max(float(self._hosts.last_start[host]), now)

    def finish(self) -> None:
        """Frees the hosts after the request."""
        for host in self._held:
            self._hosts.finish(host)
        self._held.clear()
