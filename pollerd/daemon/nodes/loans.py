"""Loans of hosts between nodes, for redirected requests: each host is requested only with the permit of its node."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from pollerd.daemon.commit import Journal
from pollerd.daemon.nodes.calls import EndLoan, LendHost, LoanAnswer, NodeClient
from pollerd.daemon.redirects import RedirectPolicies, RedirectPolicy, answering_host
from pollerd.daemon.robots import RobotsKeeper
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.errors import DatabaseUnavailableError, HolderUnavailableError
from pollerd.model import Outcome, OutcomeKind
from pollerd.scheduling.hosts import HostTable
from pollerd.storage.node_values import SILENT_SECONDS, LivingNode
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.sites import SiteStore
from pollerd.storage.values import SiteContext
from pollerd.urls import host_of

# Permits: hosts of other partitions to which requests may be written, checked at the moment of writing.


class HostPermits:
    """What was lent to this node, and until when; and hosts of its own that it lost while requests to them waited."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._lost: dict[str, int] = {}

    def __call__(self, host: str) -> bool:
        """Returns whether a request to the host may be written now."""
        return host not in self._lost and time.monotonic() < self._until.get(host, math.inf)

    def lend(self, host: str, until: float) -> None:
        """Notes that another node lends the host until then (monotonic s)."""
        self._until[host] = until
        self._lost.pop(host, None)

    def lent(self, host: str) -> bool:
        """Returns whether another node lends the host now."""
        return time.monotonic() < self._until.get(host, -math.inf)

    def give_back(self, host: str) -> None:
        """Ends `lend`."""
        self._until.pop(host, None)

    def lose(self, host: str, partition: int) -> None:
        """Permits no more requests to a host of a partition that this node lost."""
        self._lost[host] = partition

    def regain(self, partition: int) -> None:
        """Ends `lose` for all hosts of the partition."""
        self._lost = {host: its for host, its in self._lost.items() if its != partition}


# Lending: hosts of this node's partitions are lent to redirected requests of others, one request at a time.

RETRY_SECONDS = 5.0
"""When a host that no node lends now may be asked for again."""
_ANSWER_SECONDS = 6.0
"""How long another node waits for an answer; shorter than its own deadline."""
_MAX_SECONDS = 300.0
_NO_HOST = -1

LoanKey = tuple[int, int]
"""Id of the node whose request it is, and the request's number there."""
NOT_NOW = LoanAnswer(False, RETRY_SECONDS)


@dataclass
class _Loan:
    """What one request has."""

    policy: RedirectPolicy
    held: dict[str, int] = field(default_factory=dict)
    """Host -> its partition."""
    waiting: tuple[str, int] | None = None
    """The host for which it waits, and its partition."""
    ended: bool = False
    lapse: asyncio.TimerHandle | None = None


class HostLoans:
    """Reserves hosts for requests whose site is of another partition, of this node or of another one.

    A lent host is asked by nobody else until the request is over. A node that does not say so has had its time: it
    writes nothing to the host after the seconds that it named, nor after its session was silent for ten.
    """

    def __init__(
        self,
        *,
        cluster: ClusterStore,
        policies: RedirectPolicies,
        permits: HostPermits,
        sites: SiteStore,
        scheduler: SchedulerState,
        journal: Journal,
        runtime: Runtime,
    ) -> None:
        self._cluster, self._policies, self._sites = cluster, policies, sites
        self._permits, self._scheduler, self._journal = permits, scheduler, journal
        self._clock, self._rng = runtime.clock, runtime.rng
        self._opened: dict[int, tuple[float, float]] = {}
        self._loans: dict[LoanKey, _Loan] = {}
        self._tasks: set[asyncio.Task[LoanAnswer]] = set()
        self._log = structlog.get_logger("pollerd.cluster")

    def open(self, partition: int, quiet_seconds: float) -> None:
        """Lends hosts of a partition from now on; none of it is asked within the next `quiet_seconds`."""
        now = self._clock()
        self._permits.regain(partition)
        self._opened[partition] = now, now + quiet_seconds

    def close(self, partition: int) -> None:
        """Lends no more hosts of a partition; those that are lent stay so."""
        self._opened.pop(partition, None)

    def lose(self, partition: int) -> None:
        """Lends no more hosts of a partition that another node has: this node itself writes nothing to them any more.

        What it lent to others they may still ask: the next holder waits for that long.
        """
        self.close(partition)
        for loan in self._loans.values():
            for name, its in (*loan.held.items(), *([loan.waiting] if loan.waiting else [])):
                if its == partition:
                    self._permits.lose(name, partition)

    def stop(self) -> None:
        """Lends no more hosts at all, and answers who waits for one: the node is ending."""
        self._opened.clear()
        for task in self._tasks:
            task.cancel()

    def lent(self, partition: int) -> bool:
        """Returns whether a request may be under way to a host of the partition."""
        loans = self._loans.values()
        return any((one.waiting and one.waiting[1] == partition) or partition in one.held.values() for one in loans)

    async def lend_to_node(self, key: LoanKey, question: LendHost) -> LoanAnswer:
        """Returns within some seconds whether another node may ask a host. Raises DatabaseUnavailableError."""
        proxy = None
        if question.proxied_site is not None:
            context = (await self._sites.contexts([question.proxied_site])).get(question.proxied_site)
            if context is None:
                return NOT_NOW
            proxy = context.access.proxy
        seconds = min(max(question.seconds, 0.0), _MAX_SECONDS) + SILENT_SECONDS
        lending = self.lend(key, question.url, proxy=proxy, robots=question.robots, seconds=seconds)
        task = asyncio.create_task(lending, name=f"lend-{key[0]}-{key[1]}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        done, _ = await asyncio.wait({task}, timeout=_ANSWER_SECONDS)
        if done:
            return NOT_NOW if task.cancelled() else task.result()
        self._forsake(key)
        return NOT_NOW

    async def lend(
        self, key: LoanKey, url: str, *, proxy: str | None, robots: bool = False, seconds: float = math.inf
    ) -> LoanAnswer:
        """Waits for the URL's host, and reserves it if its robots.txt allows the URL; `robots`: whatever it allows.

        proxy: through which robots.txt is read. seconds: after which the loan ends by itself; inf: it never does.
        Raises DatabaseUnavailableError.
        """
        name = host_of(url)
        partition = await self._cluster.partition_of_host(name)
        refusal = self._refusal(partition)
        if refusal is not None:
            return refusal
        loan = self._loans.get(key)
        if loan is None:
            loan = self._loans[key] = _Loan(self._policies.policy(_NO_HOST, None, proxy))
        elif math.isfinite(seconds):
            loan.policy.note_written()  # its last request may just have ended
        self._know(name, partition)
        loan.policy.put_off, loan.waiting = None, (name, partition)
        lent = False
        try:
            lent = await (loan.policy.may_ask_robots if robots else loan.policy.may_follow)(url)
            if lent and (loan.ended or self._refusal(partition) is not None):  # while it waited
                lent, loan.policy.put_off = False, RETRY_SECONDS
        finally:
            loan.waiting = None
            if lent:
                loan.held[name] = partition
            elif not loan.held or loan.ended:
                self._forsake(key)
                loan.policy.finish()
        if lent:
            self._start_time(key, loan, seconds)
        return self._answer(loan, name, lent=lent)

    def _start_time(self, key: LoanKey, loan: _Loan, seconds: float) -> None:
        if loan.lapse is not None:
            loan.lapse.cancel()
        if math.isfinite(seconds):
            loan.lapse = asyncio.get_running_loop().call_later(seconds, self._lapsed, key)

    def _answer(self, loan: _Loan, name: str, *, lent: bool) -> LoanAnswer:
        hosts = self._scheduler.hosts
        slot = hosts.slot_of(name)
        assert slot is not None
        if lent:
            return LoanAnswer(True, interval=hosts.interval_of(slot))
        unreachable = hosts.robots_at[slot] == -math.inf and hosts.robots_failures[slot] > 0
        return LoanAnswer(False, loan.policy.put_off, unreachable=bool(unreachable))

    def _refusal(self, partition: int) -> LoanAnswer | None:
        """Returns why no host of the partition can be lent now; None: it can."""
        if partition not in self._opened or partition not in self._cluster.held or not self._cluster.may_write():
            return NOT_NOW
        wait = self._opened[partition][1] - self._clock()
        return LoanAnswer(False, wait) if wait > 0 else None

    def _know(self, name: str, partition: int) -> None:
        """Brings a host without sites in: a former holder of the partition may have lent it until this one took it."""
        hosts = self._scheduler.hosts
        slot = hosts.slot_of(name)
        if slot is None:
            slot = hosts.add(_NO_HOST, name)
        if hosts.host_id[slot] < 0:
            hosts.last_start[slot] = max(float(hosts.last_start[slot]), self._opened[partition][0])

    def end(self, key: LoanKey, ending: EndLoan) -> None:
        """Frees the hosts of a request that is over, or that nobody waits for any more."""
        loan = self._forsake(key)
        if loan is None:
            return
        hosts, now = self._scheduler.hosts, self._clock()
        for name in loan.held.keys() & ending.written_ago.keys():
            hosts.sent(name, now - max(ending.written_ago[name], 0.0))
        if ending.answered in loan.held:
            self._note_answer(ending, now)
        if loan.waiting is None:
            loan.policy.finish()
        slots = [slot for name in loan.held if (slot := hosts.slot_of(name)) is not None]
        if any(hosts.touched[slot] and hosts.host_id[slot] >= 0 for slot in slots):
            self._journal.put_hosts()
        self._scheduler.due.set()

    def _forsake(self, key: LoanKey) -> _Loan | None:
        loan = self._loans.pop(key, None)
        if loan is not None:
            loan.ended = True
            if loan.lapse is not None:
                loan.lapse.cancel()
        return loan

    def _lapsed(self, key: LoanKey) -> None:
        """Ends a loan of which nothing was heard: its hosts may have been asked until now."""
        loan = self._loans.get(key)
        if loan is not None:
            self._log.warning("loan_lapsed", hosts=", ".join(loan.held), node=key[0])
            self.end(key, EndLoan(key[1], dict.fromkeys(loan.held, 0.0)))

    def _note_answer(self, ending: EndLoan, now: float) -> None:
        """Pauses a host that refused, as if a poll of its own site had been refused."""
        hosts = self._scheduler.hosts
        slot = hosts.slot_of(ending.answered)
        assert slot is not None
        outcome = Outcome(OutcomeKind.THROTTLED, now, 0.0, ending.status, retry_after=ending.retry_after)
        hosts.answered(slot, outcome, now, self._rng)

    def _done(self, task: asyncio.Task[LoanAnswer]) -> None:
        """Keeps the failure of a task that nobody waits for any more from being lost.

        That the database does not answer is known from the node's health.
        """
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, DatabaseUnavailableError):
            self._log.warning("lending_failed", reason=str(error))


# Borrowing: hosts of other nodes, for redirected requests of this one.

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
        """Returns the policy of one request; see `RedirectPolicyMaker`."""
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
