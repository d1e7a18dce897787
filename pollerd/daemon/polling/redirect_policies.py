"""What decides which hosts a request may be redirected to."""

from __future__ import annotations

from typing import Protocol

from pollerd.daemon.polling.redirects import RedirectPolicy
from pollerd.daemon.polling.robots_txt import RobotsKeeper
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.model import Outcome
from pollerd.storage import SiteContext


class FollowsRedirects(Protocol):
    """Decides for one request; see `RedirectPolicy`."""

    put_off: float | None
    """Seconds until the host that was not available may be requested; None: nothing was put off."""

    async def may_follow(self, url: str) -> bool:
        """Waits for the URL's host, and reserves it if its robots.txt allows the URL."""

    async def read_robots(self, url: str) -> None:
        """Has the robots.txt that applies to the URL read into this process's memory, if that is possible now."""

    def holds(self, url: str) -> bool:
        """Returns whether the URL's host, which was reserved, still is: it may be lent by another node, for a time."""

    def answered(self, url: str, outcome: Outcome) -> None:
        """Notes how the request of the URL ended, before its hosts are free: one that refused is paused from then."""

    def finish(self) -> None:
        """Frees the hosts after the request."""


class MakesRedirectPolicies(Protocol):
    """Makes what decides on the redirects of one request."""

    def policy(self, own: int, context: SiteContext | None, proxy: str | None) -> FollowsRedirects:
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
