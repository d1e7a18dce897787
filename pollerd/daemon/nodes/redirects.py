"""Redirects at one of several nodes: to hosts of its own, and to those that it asks with a claim."""

from __future__ import annotations

from pollerd.daemon.nodes.shared_hosts import PUT_OFF_SECONDS, SharedHosts
from pollerd.daemon.redirects import RedirectPolicies, RedirectPolicy
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Outcome
from pollerd.scheduling.hosts import HostTable
from pollerd.storage.values import SiteContext
from pollerd.urls import host_of


class NodeHostVisit:
    """The hosts that one request enters beside its own."""

    __slots__ = ("_names", "_shared", "put_off")

    def __init__(self, shared: SharedHosts) -> None:
        self._shared = shared
        self._names: set[str] = set()
        self.put_off: float | None = None

    async def enter(self, name: str) -> bool:
        """Returns whether the request may wait in the queue of the host "name:port"; if not, `put_off` says how long.

        Where the database does not answer, it may not: the request is made later.
        """
        try:  # anew each time: its partition may have moved, and it may be shared no more
            wait = await self._shared.enter(name, self)
        except DatabaseUnavailableError:
            wait = PUT_OFF_SECONDS
        self.put_off = wait
        if wait is None:
            self._names.add(name)
        return wait is None

    def not_obtained(self, name: str) -> None:
        """Notes that the host could not be reserved in time."""
        self.put_off = self._shared.wait_of(name)

    def finish(self) -> None:
        """Leaves the hosts after the request."""
        for name in self._names:
            self._shared.leave(name, self)
        self._names.clear()


class NodeRedirectPolicies:
    """Makes policies for redirects to hosts of any node."""

    def __init__(self, *, local: RedirectPolicies, shared: SharedHosts, hosts: HostTable) -> None:
        self.local, self.shared, self.hosts = local, shared, hosts

    def policy(self, own: int, context: SiteContext | None, proxy: str | None) -> NodeRedirects:
        """Returns the policy of one request; see `RedirectPolicyMaker`."""
        own_name = self.hosts.names[own] if own >= 0 else ""
        local = self.local.policy(own, context, proxy)
        return NodeRedirects(shared=self.shared, local=local, own_name=own_name)


class NodeRedirects:
    """Decides for one request."""

    __slots__ = ("_local", "_own_name", "_shared", "_visit", "put_off")

    def __init__(self, *, shared: SharedHosts, local: RedirectPolicy, own_name: str) -> None:
        """shared: which hosts need claims. local: decides once a host may be waited for.

        own_name: the request's own host; empty: it has none.
        """
        self._shared, self._local, self._own_name = shared, local, own_name
        self._visit = NodeHostVisit(shared)
        self.put_off: float | None = None

    async def may_follow(self, url: str) -> bool:
        """Waits for the URL's host, with a claim if it is shared, and reserves it if its robots.txt allows the URL."""
        name = host_of(url)
        if name != self._own_name and not await self._visit.enter(name):
            self.put_off = self._visit.put_off
            return False
        allowed = await self._local.may_follow(url)
        self.put_off, self._local.put_off = self._local.put_off, None
        if self.put_off is not None and self._shared.is_shared(name):
            self.put_off = max(self.put_off, self._shared.wait_of(name))
        elif allowed and name != self._own_name and not self._shared.may_write(name):  # while it waited
            self.put_off = PUT_OFF_SECONDS
            return False
        return allowed

    async def read_robots(self, url: str) -> None:
        """Has the robots.txt that applies to the URL read, if that is possible now, and reserves the host."""
        await self.may_follow(url)

    def holds(self, url: str) -> bool:
        """Returns whether the URL's host, which was reserved, still is."""
        return self._shared.may_write(host_of(url))

    def answered(self, url: str, outcome: Outcome) -> None:
        """Notes the answer with the host that gave it: it is paused from then if it refused."""
        self._local.answered(url, outcome)

    def finish(self) -> None:
        """Frees the hosts after the request."""
        self._local.finish()
        self._visit.finish()
