"""Politeness and robots.txt for the hosts that a poll is redirected to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pollerd.daemon.robots import WAIT_SECONDS, HostReservations, RobotsKeeper
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.fetching.outcomes import REDIRECT_STATUSES
from pollerd.model import Outcome
from pollerd.storage.values import SiteContext
from pollerd.urls import host_of

_UNSTORED_HOST = -1


def answering_host(url: str, outcome: Outcome) -> str:
    """Returns the host that gave the outcome of the URL: where a redirect was not followed, the one that redirected."""
    hops = outcome.redirects
    if not hops:
        return host_of(url)
    if outcome.status not in REDIRECT_STATUSES:
        return host_of(hops[-1].url)
    return host_of(hops[-2].url if len(hops) > 1 else url)


class RedirectPolicy:
    """Decides, for one poll, whether a redirect may be followed now: to another host, or again to a held one.

    `put_off`: seconds until the host that was not available may be requested; None: nothing was put off, so a refusal
    comes from that host's robots.txt.
    """

    __slots__ = ("_clock", "_proxy", "_reservations", "_rng", "_robots", "_scheduler", "_unknown_since", "put_off")

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        robots: RobotsKeeper,
        own: int,
        unknown_since: float,
        clock: Callable[[], float],
        rng: np.random.Generator,
        proxy: str | None,
    ) -> None:
        """`own`: the host slot of the poll. `unknown_since`: start of the daemon (epoch s).

        A new host may have been requested until then. `proxy`: the site's own, also used for other hosts.
        """
        self._scheduler, self._robots = scheduler, robots
        self._reservations = HostReservations(hosts=scheduler.hosts, own=own, clock=clock)
        self._unknown_since, self._clock = unknown_since, clock
        self._rng, self._proxy = rng, proxy
        self.put_off: float | None = None

    async def may_follow(self, url: str) -> bool:
        """Waits for the URL's host, and reserves it if its robots.txt allows the URL."""
        host = self._slot(host_of(url))
        asked_before = self._reservations.holds(host)
        if not asked_before and not await self._turn(host, url):
            return False
        if not await self._robots.allows(host, url):
            return False
        if asked_before:
            await self._reservations.spacing(host)
        return True

    async def read_robots(self, url: str) -> None:
        """Reads the robots.txt that applies to the URL if it is unknown, and reserves the host."""
        await self.may_follow(url)

    def holds(self, url: str) -> bool:
        """Returns True: a host stays reserved until `finish`."""
        return True

    def answered(self, url: str, outcome: Outcome) -> None:
        """Notes the answer with the host that gave it; see `HostTable.answered`."""
        if outcome.status is None:  # nobody answered; the URL may be no URL at all
            return
        hosts = self._scheduler.hosts
        slot = hosts.slot_of(answering_host(url, outcome))
        if slot is not None:
            hosts.answered(slot, outcome, self._clock(), self._rng)

    def finish(self) -> None:
        """Frees the hosts after the poll."""
        self._reservations.finish()

    def _slot(self, name: str) -> int:
        hosts = self._scheduler.hosts
        slot = hosts.slot_of(name)
        if slot is None:
            slot = hosts.add(_UNSTORED_HOST, name)
            hosts.last_start[slot] = self._unknown_since
        return slot

    async def _turn(self, host: int, url: str) -> bool:
        hosts = self._scheduler.hosts
        deadline = self._clock() + WAIT_SECONDS
        while True:
            if not await self._reservations.wait(host, deadline):
                self.put_off = max(hosts.ready_at_of(host) - self._clock(), 0.0)
                return False
            now = self._clock()
            if hosts.robots_wanted(now)[host]:
                await self._ask(host, url)
            elif (allowed := hosts.allows(host, url)) is None:
                await self._robots.allows(host, url)  # cached from now on; but the reservation may be lost
            else:
                break
        if allowed:
            self._reservations.take(host, now)
        return True

    async def _ask(self, host: int, url: str) -> None:
        self._scheduler.hosts.busy[host] = True
        try:
            await self._robots.ask(host, url, self._proxy)
        finally:  # also if the poll timed out before
            self._scheduler.hosts.finish(host)


# Interfaces of the decision to which hosts a request may be redirected.


class RedirectFollower(Protocol):
    """Decides for one request; see `RedirectPolicy`."""

    put_off: float | None
    """Seconds until the host that was not available may be requested; None: nothing was put off."""

    async def may_follow(self, url: str) -> bool:
        """Waits for the URL's host, and reserves it if its robots.txt allows the URL."""

    async def read_robots(self, url: str) -> None:
        """Has the robots.txt that applies to the URL read into this process's memory, if that is possible now."""

    def holds(self, url: str) -> bool:
        """Returns whether the URL's host, which was reserved, still is: of several nodes another may have its turn."""

    def answered(self, url: str, outcome: Outcome) -> None:
        """Notes how the request of the URL ended, before its hosts are free: one that refused is paused from then."""

    def finish(self) -> None:
        """Frees the hosts after the request."""


class RedirectPolicyMaker(Protocol):
    """Makes what decides on the redirects of one request."""

    def policy(self, own: int, context: SiteContext | None, proxy: str | None) -> RedirectFollower:
        """Returns it. own: the host slot of the request; context: of its site, None: of none."""


class RedirectPolicies:
    """Makes policies that know this process's own hosts only."""

    def __init__(self, *, scheduler: SchedulerState, robots: RobotsKeeper, runtime: Runtime) -> None:
        self._scheduler, self._robots, self._clock = scheduler, robots, runtime.clock
        self._rng, self._began_at = runtime.rng, runtime.clock()

    def policy(self, own: int, context: SiteContext | None, proxy: str | None) -> RedirectPolicy:
        """Returns a policy; `context` plays no part."""
        return RedirectPolicy(
            scheduler=self._scheduler,
            robots=self._robots,
            own=own,
            unknown_since=self._began_at,
            clock=self._clock,
            rng=self._rng,
            proxy=proxy,
        )
