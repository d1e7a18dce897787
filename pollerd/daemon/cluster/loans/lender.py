"""Lends hosts of this node's partitions to requests of others that are redirected to them, one request at a time."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import structlog

from pollerd.daemon.cluster.loans.permits import HostPermits
from pollerd.daemon.cluster.node_messages import EndLoan, LendHost, LoanAnswer
from pollerd.daemon.polling.redirect_policies import RedirectPolicies
from pollerd.daemon.polling.redirects import RedirectPolicy
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Outcome, OutcomeKind
from pollerd.storage import ClusterStore, SiteStore
from pollerd.storage.cluster.cluster_values import SILENT_SECONDS
from pollerd.urls import host_of

RETRY_SECONDS = 5.0
"""When a host that no node lends now may be asked for again."""
_ANSWER_SECONDS = 6.0
"""How long another node waits for an answer; shorter than its own deadline."""
_MOST_SECONDS = 300.0
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
        seconds = min(max(question.seconds, 0.0), _MOST_SECONDS) + SILENT_SECONDS
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
