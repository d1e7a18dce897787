"""Whose turn it is at the hosts that one errand is redirected to: one request at a time, as far apart as polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pollerd.scheduling import HostTable

WAIT_SECONDS = 5.0
"""How long an errand under way waits for a host."""
_RETRY_SECONDS = 0.05


class HostReservations:
    """The hosts that an errand holds: its own, and those it has been redirected to."""

    __slots__ = ("_clock", "_held", "_hosts", "_own")

    def __init__(self, *, hosts: HostTable, own: int, clock: Callable[[], float]) -> None:
        """`own`: the host slot of the errand, which its caller marks and frees."""
        self._hosts, self._own, self._clock = hosts, own, clock
        self._held: list[int] = []

    def holds(self, host: int) -> bool:
        """Whether the errand has asked the host slot before, and so nobody else does."""
        return host == self._own or host in self._held

    async def wait(self, host: int, deadline: float) -> bool:
        """Waits in line until another host slot may be asked; False where that is not before the deadline (epoch s)."""
        self._hosts.line_up(host, self)
        try:
            while not self._hosts.may_start(host, now := self._clock(), self):
                if max(self._hosts.ready_at_of(host), now) > deadline:
                    return False
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._hosts.leave_line(host, self)
        return True

    def take(self, host: int, now: float) -> None:
        """The other host slot is asked from now (epoch s) on."""
        self._hosts.start(host, now)
        self._held.append(host)

    async def spacing(self, host: int) -> None:
        """Waits between two requests to a host slot that is held, as long as between two polls of it.

        At most WAIT_SECONDS: of a longer spacing nothing else would ever come.
        """
        wait = self._hosts.spacing_left(host, self._clock())
        if wait > 0:
            await asyncio.sleep(min(wait, WAIT_SECONDS))

    def finish(self) -> None:
        """The errand is over."""
        for host in self._held:
            self._hosts.finish(host)
        self._held.clear()
