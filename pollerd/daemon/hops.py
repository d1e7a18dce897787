"""The hosts that one poll is redirected to: each is asked as politely as if the poll were its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pollerd.daemon.fleet import Fleet
from pollerd.daemon.robots import RobotsKeeper
from pollerd.urls import host_of

_WAIT_SECONDS = 5.0
"""How long a poll under way waits for another host; longer waits put the poll off."""
_RETRY_SECONDS = 0.05
_UNSTORED_HOST = -1


class Hops:
    """Answers, for one poll, whether a redirect to another host may be followed now.

    `put_off`: seconds until the host that could not be asked now may be; None: nothing was put off, so a refusal is
    that host's robots.txt.
    """

    __slots__ = ("_clock", "_fleet", "_held", "_own", "_proxy", "_robots", "_unknown_since", "put_off")

    def __init__(
        self,
        fleet: Fleet,
        robots: RobotsKeeper,
        own: int,
        unknown_since: float,
        clock: Callable[[], float],
        proxy: str | None,
    ) -> None:
        """`own`: the host slot of the poll. `unknown_since`: hosts met first now may have been asked until then.

        `proxy`: the site's own, through which other hosts are asked, too.
        """
        self._fleet, self._robots, self._own = fleet, robots, own
        self._unknown_since, self._clock = unknown_since, clock
        self._proxy = proxy
        self._held: list[int] = []
        self.put_off: float | None = None

    async def may_follow(self, url: str) -> bool:
        """Waits for the turn of the URL's host, and takes it where its robots.txt allows."""
        host = self._slot(host_of(url))
        if host != self._own and host not in self._held and not await self._turn(host, url):
            return False
        return await self._robots.allows(host, url)

    def finish(self) -> None:
        """The poll is over."""
        for host in self._held:
            self._fleet.hosts.finish(host)

    def _slot(self, name: str) -> int:
        hosts = self._fleet.hosts
        slot = hosts.slot_of(name)
        if slot is None:
            slot = hosts.add(_UNSTORED_HOST, name)
            hosts.last_start[slot] = self._unknown_since
        return slot

    async def _turn(self, host: int, url: str) -> bool:
        hosts = self._fleet.hosts
        deadline = self._clock() + _WAIT_SECONDS
        while True:
            while not hosts.may_start(host, now := self._clock()):
                if max(hosts.ready_at_of(host), now) > deadline:
                    self.put_off = max(hosts.ready_at_of(host) - now, 0.0)
                    return False
                await asyncio.sleep(_RETRY_SECONDS)
            if hosts.robots_wanted(now)[host]:
                await self._ask(host, url)
            elif (allowed := hosts.allows(host, url)) is None:
                await self._robots.allows(host, url)  # from now on it is known; but the turn may have passed
            else:
                break
        if allowed:
            hosts.start(host, now)
            self._held.append(host)
        return True

    async def _ask(self, host: int, url: str) -> None:
        self._fleet.hosts.busy[host] = True
        try:
            await self._robots.ask(host, url, self._proxy)
        finally:  # also where the poll's time ran out before its turn came
            self._fleet.hosts.finish(host)
