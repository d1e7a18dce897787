"""Decides on redirects where several nodes share the hosts: each host is asked for where it is held."""

from __future__ import annotations

import itertools

from pollerd.daemon.cluster.loans.borrower import BorrowedHosts, HostBorrower
from pollerd.daemon.cluster.loans.lender import NOT_NOW, HostLoans, LoanKey
from pollerd.daemon.cluster.node_messages import EndLoan, LoanAnswer
from pollerd.daemon.polling.redirect_policies import RedirectPolicies
from pollerd.daemon.polling.redirects import RedirectPolicy
from pollerd.daemon.polling.robots_txt import RobotsKeeper
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Outcome
from pollerd.scheduling import HostTable
from pollerd.storage import SiteContext
from pollerd.urls import host_of

_THIS_NODE = 0
"""In a loan's key: the request is this node's own."""


class NodeRedirectPolicies:
    """Makes policies that ask the holder of each host, this node or another."""

    def __init__(
        self,
        *,
        local: RedirectPolicies,
        loans: HostLoans,
        borrower: HostBorrower,
        robots: RobotsKeeper,
        hosts: HostTable,
    ) -> None:
        self.local, self.loans, self.borrower = local, loans, borrower
        self.robots, self.hosts = robots, hosts
        self._numbers = itertools.count(1)

    def policy(self, own: int, context: SiteContext | None, proxy: str | None) -> NodeRedirects:
        """Returns the policy of one request; see `MakesRedirectPolicies`."""
        site_id = context.site_id if context is not None and proxy is not None else None
        key = _THIS_NODE, next(self._numbers)
        own_name = self.hosts.names[own] if own >= 0 else ""
        return NodeRedirects(
            self,
            own=self.local.policy(own, context, proxy),
            own_name=own_name,
            key=key,
            proxy=proxy,
            borrowed=self.borrower.for_request(site_id),
        )


class NodeRedirects:
    """Decides for one request."""

    __slots__ = ("_borrowed", "_key", "_makes", "_own", "_own_name", "_proxy", "put_off")

    def __init__(
        self,
        makes: NodeRedirectPolicies,
        *,
        own: RedirectPolicy,
        own_name: str,
        key: LoanKey,
        proxy: str | None,
        borrowed: BorrowedHosts,
    ) -> None:
        """own: decides on redirects within the request's own host, `own_name`; empty: it has none."""
        self._makes, self._own, self._own_name = makes, own, own_name
        self._key, self._proxy, self._borrowed = key, proxy, borrowed
        self.put_off: float | None = None

    async def may_follow(self, url: str) -> bool:
        """Waits for the URL's host, and reserves it at its holder if its robots.txt allows the URL."""
        if host_of(url) == self._own_name:
            return await self._own.may_follow(url)
        answer = await self._borrowed.borrow(url)
        if answer is None:
            answer = await self._lend_here(url)
        self.put_off = answer.put_off
        return answer.lent

    async def _lend_here(self, url: str) -> LoanAnswer:
        try:
            return await self._makes.loans.lend(self._key, url, proxy=self._proxy)
        except DatabaseUnavailableError as error:
            self._makes.borrower.note_refusal(str(error))
            return NOT_NOW

    async def read_robots(self, url: str) -> None:
        """Reads the robots.txt that applies to the URL, with its host lent if it is another node's."""
        lent = await self._borrowed.may_ask_robots(url)
        if lent is None:
            await self._lend_here(url)
        elif lent:
            slot = self._makes.hosts.slot_of(host_of(url))
            assert slot is not None
            await self._makes.robots.ask(slot, url, self._proxy)

    def holds(self, url: str) -> bool:
        """Returns whether the URL's host, which was reserved, still is."""
        name = host_of(url)
        lent = self._borrowed.holds(name)
        return self._makes.borrower.permits(name) if lent is None else lent

    def answered(self, url: str, outcome: Outcome) -> None:
        """Notes how the request ended, here and for the holder of the host that answered."""
        self._own.answered(url, outcome)
        self._borrowed.answered(url, outcome)

    def finish(self) -> None:
        """Frees the hosts after the request."""
        self._own.finish()
        self._makes.loans.end(self._key, EndLoan(self._key[1]))
        self._borrowed.finish()
