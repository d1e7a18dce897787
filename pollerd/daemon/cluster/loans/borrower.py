"""Borrows hosts of other nodes for requests that are redirected to them."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable

import structlog

from pollerd.daemon.cluster.loans.lender import NOT_NOW
from pollerd.daemon.cluster.loans.permits import HostPermits
from pollerd.daemon.cluster.node_client import NodeClient
from pollerd.daemon.cluster.node_messages import EndLoan, LendHost, LoanAnswer
from pollerd.daemon.polling.redirects import answering_host
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.errors import DatabaseUnavailableError, HolderUnavailableError
from pollerd.model import Outcome
from pollerd.storage import ClusterStore, LivingNode
from pollerd.urls import host_of

_LOG_SECONDS = 60.0
_WRITE_SECONDS = 10.0
"""How long after a host was asked for a request to it may still be written. The sum with the ten seconds for which a
holder may lend without an answer of the database is no more than the next holder waits."""
_UNSTORED_HOST = -1


class HostBorrower:
    """Asks the holders of hosts to lend them, and gives them back."""

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        nodes: NodeClient,
        scheduler: SchedulerState,
        clock: Callable[[], float],
        seconds: float,
    ) -> None:
        """seconds: how long a request needs a host at most."""
        self.cluster, self.nodes, self.hosts = cluster, nodes, scheduler.hosts
        self.clock, self.seconds = clock, seconds
        self.numbers = itertools.count(1)
        """Of requests."""
        self.permits = HostPermits()
        """What may be written now."""
        self._ended: asyncio.Queue[tuple[LivingNode, EndLoan]] = asyncio.Queue()
        self._refused, self._logged_at = 0, -math.inf
        self._log = structlog.get_logger("pollerd.cluster")

    def for_request(self, proxied_site: int | None = None) -> BorrowedHosts:
        """Returns what one request has of other nodes, at first nothing.

        proxied_site: site through whose own proxy it goes; None: it has none.
        """
        return BorrowedHosts(self, proxied_site)

    def may_write(self, host: str) -> bool:
        """Returns whether a request to the host may be written now: not after the time for which it was lent."""
        return self.cluster.may_write() and self.permits(host)

    async def holder_of(self, host: str) -> LivingNode | None:
        """Returns the node that holds the host; None: this one does.

        Raises HolderUnavailableError if no node does, DatabaseUnavailableError.
        """
        partition = await self.cluster.partition_of_host(host)
        if partition in self.cluster.held:
            return None
        holder = await self.cluster.last_holder(partition)
        if holder is None or holder.id == self.cluster.node_id:
            raise HolderUnavailableError(f"no node is known to hold {host} at present")
        return holder

    def note_refusal(self, reason: str) -> None:
        """Logs once a minute at most why hosts were not lent."""
        self._refused += 1
        if self.clock() - self._logged_at >= _LOG_SECONDS:
            self._log.warning("hosts_not_lent", reason=reason, number=self._refused)
            self._logged_at, self._refused = self.clock(), 0

    def give_back(self, node: LivingNode, ending: EndLoan) -> None:
        """Has a node informed that a request is over."""
        self._ended.put_nowait((node, ending))

    async def run(self) -> None:
        """Informs the nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                node, ending = await self._ended.get()
                group.create_task(self._inform(node, ending), name=f"end-loan-{ending.loan}")

    async def inform_all(self) -> None:
        """Informs the nodes of what ended since `run`."""
        async with asyncio.TaskGroup() as group:
            while not self._ended.empty():
                group.create_task(self._inform(*self._ended.get_nowait()), name="end-loan")

    async def _inform(self, node: LivingNode, ending: EndLoan) -> None:
        try:
            await self.nodes.end_loan(node, ending)
        except HolderUnavailableError as error:  # it ends the loan by itself, later
            self.note_refusal(str(error))


class BorrowedHosts:
    """The hosts of other nodes that one request has."""

    __slots__ = ("_answered", "_borrower", "_loans", "_names", "_proxied_site", "put_off")

    def __init__(self, borrower: HostBorrower, proxied_site: int | None) -> None:
        self._borrower, self._proxied_site = borrower, proxied_site
        self._loans: dict[int, tuple[LivingNode, int]] = {}
        self._names: dict[str, tuple[int, float]] = {}
        """Host -> id of its holder, since when it was borrowed (epoch s)."""
        self._answered: tuple[str, int | None, float | None] = "", None, None
        self.put_off: float | None = None

    async def borrow(self, url: str, *, robots: bool = False) -> LoanAnswer | None:
        """Asks for the URL's host; robots: to ask it for its robots.txt. None: the host is this node's own."""
        borrower = self._borrower
        try:
            holder = await borrower.holder_of(host_of(url))
            return None if holder is None else await self._borrow(holder, url, robots)
        except (DatabaseUnavailableError, HolderUnavailableError) as error:
            borrower.note_refusal(str(error))
            return NOT_NOW

    async def _borrow(self, holder: LivingNode, url: str, robots: bool) -> LoanAnswer:
        borrower, name = self._borrower, host_of(url)
        _, number = self._loans.setdefault(holder.id, (holder, next(borrower.numbers)))
        until, now = time.monotonic() + min(borrower.seconds, _WRITE_SECONDS), borrower.clock()
        question = LendHost(number, url, borrower.seconds, robots, self._proxied_site)
        answer = await borrower.nodes.lend(holder, question)
        hosts = borrower.hosts
        slot = hosts.add(_UNSTORED_HOST, name)  # so that what is sent to it is noted
        if answer.lent:
            hosts.crawl_delay[slot], hosts.robots_failures[slot] = answer.interval, 0
            self._names.setdefault(name, (holder.id, now))
            borrower.permits.lend(name, until)
        elif answer.unreachable:
            hosts.robots_unreachable(slot, now + (answer.put_off or 0.0))
        return answer

    async def may_ask_robots(self, url: str) -> bool | None:
        """Returns whether the URL's host may be asked for its robots.txt now; None: it is this node's own."""
        answer = await self.borrow(url, robots=True)
        if answer is None:
            return None
        self.put_off = None if answer.lent else answer.put_off
        return answer.lent

    def holds(self, name: str) -> bool | None:
        """Returns whether a host is still lent; None: it is none of these."""
        return self._borrower.permits.lent(name) if name in self._names else None

    def answered(self, url: str, outcome: Outcome) -> None:
        """Notes what the host that answered the request of the URL said."""
        if outcome.status is not None:
            self._answered = answering_host(url, outcome), outcome.status, outcome.retry_after

    def finish(self) -> None:
        """Gives all hosts back."""
        borrower, now = self._borrower, self._borrower.clock()
        ago: dict[int, dict[str, float]] = {node_id: {} for node_id in self._loans}
        for name, (node_id, since) in self._names.items():
            borrower.permits.give_back(name)
            slot = borrower.hosts.slot_of(name)
            if slot is not None and (sent_at := float(borrower.hosts.last_start[slot])) >= since:
                ago[node_id][name] = now - sent_at
        for node_id, (node, number) in self._loans.items():
            borrower.give_back(node, EndLoan(number, ago[node_id], *self._answered))
        self._loans.clear()
        self._names.clear()
