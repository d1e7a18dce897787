"""The keeper of robots.txt, which is fetched before anything else of a host, and reservations of redirects' hosts.

Requests of robots.txt have a separate rate limit.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Protocol

import structlog

from pollerd.daemon.budget import BudgetGate
from pollerd.daemon.commit import Journal
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.workers import Effort
from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.outcomes import RobotsResponse
from pollerd.model import Outcome, OutcomeKind
from pollerd.scheduling.hosts import HostTable, backoff_seconds, lengthened
from pollerd.scheduling.robots import USER_AGENT_TOKEN, RobotsText, rules_allow, rules_delay
from pollerd.storage.values import StoredRobots
from pollerd.texts import _
from pollerd.urls import host_of, robots_url

# Reservations of the hosts that a redirected request visits, with the same spacing as polls.

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

    def is_own(self, name: str) -> bool:
        """Returns whether the request's own host has this name."""
        return self._own >= 0 and self._hosts.names[self._own] == name

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

    def finish(self) -> None:
        """Frees the hosts after the request."""
        for host in self._held:
            self._hosts.finish(host)
        self._held.clear()


_RETRY_CAP_SECONDS = 3_600.0
_LOG_SECONDS = 60.0


class HostVisit(Protocol):
    """The hosts that one request enters beside its own; `daemon.nodes.redirects.NodeHostVisit`."""

    put_off: float | None
    """Seconds until a host that could not be had may be asked for again; None: none was refused."""

    async def enter(self, name: str) -> bool | None:
        """Returns whether the request may wait in the queue of the host; None: it may, and no other node asks it."""

    def not_obtained(self, name: str) -> None:
        """Notes that the host could not be reserved in time."""

    def finish(self) -> None:
        """Leaves the hosts after the request."""


class OwnHosts:
    """For a daemon that is alone: all hosts are its own."""

    put_off: float | None = None

    async def enter(self, name: str) -> None:
        """Returns None."""

    def not_obtained(self, name: str) -> None:
        """Does nothing."""

    def finish(self) -> None:
        """Does nothing."""


class RobotsKeeper:
    """Fetches and stores robots.txt (RFC 9309): absent allows all, unreachable forbids all until the next try.

    A robots.txt request counts as a request to its host: it is spaced, and runs alone.
    """

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        fetcher: Fetcher,
        journal: Journal,
        gate: BudgetGate,
        runtime: Runtime,
        visiting: Callable[[], HostVisit] = OwnHosts,
    ) -> None:
        """`gate`: spaces the robots.txt requests over all hosts. `visiting`: called for each request."""
        self._visiting = visiting
        self._scheduler, self._fetcher, self._journal, self._gate = scheduler, fetcher, journal, gate
        self._workers, self._requests = runtime.workers, runtime.instruments.robots
        self._rng, self._clock = runtime.rng, runtime.clock
        self._turn = asyncio.Lock()
        self._unsaid, self._said_at = 0, -math.inf
        self._log = structlog.get_logger("pollerd.robots")

    async def ask(self, host: int, page_url: str, proxy: str | None) -> Outcome | None:
        """Requests the robots.txt that applies to `page_url` from the host slot; the caller has marked the host busy.

        `proxy`: that of the site to be polled; nothing else of the site is sent. Returns the outcome that a poll would
        have with the same answer (`kind` is BODY if the host answered usefully); None if it redirects to a host that
        other nodes ask now: nobody is to blame, and it is asked again soon.
        """
        async with self._turn:
            await self._gate.acquire()
        hosts = self._scheduler.hosts
        started_at = self._clock()
        hosts.start(host, started_at)
        reservations, visit = HostReservations(hosts=hosts, own=host, clock=self._clock), self._visiting()
        try:
            response = await self._fetcher.fetch_robots(
                robots_url(page_url), proxy, partial(self._in_turn, reservations, visit)
            )
            text = None if response.body is None else RobotsText.of(response.body, USER_AGENT_TOKEN)
            delay = 0.0 if text is None else await self._delay(text)
            if response.failure is not None:  # a refusal of robots.txt pauses the host as one of a page does
                hosts.answered(host, _outcome(response, started_at), self._clock(), self._rng)
        finally:
            reservations.finish()
            visit.finish()
            hosts.finish(host)
        self._requests[response.kind].inc()
        if response.kind == "unreachable" and visit.put_off is not None:
            hosts.put_off_robots(host, self._clock() + min(visit.put_off, _RETRY_CAP_SECONDS))
            return None
        self._take(host, response, text, delay)
        return _outcome(response, started_at)

    async def _in_turn(self, reservations: HostReservations, visit: HostVisit, url: str) -> bool:
        """Waits for the host that a robots.txt redirects to; returns False if the host is paused by hand, or if other
        nodes ask it for too long.

        A daemon that is alone sends the request also after a wait that was too long: without its rules nothing on the
        host may be polled.
        """
        name = host_of(url)
        among_nodes = None if reservations.is_own(name) else await visit.enter(name)
        if among_nodes is False:
            return False
        host = self._scheduler.hosts.slot_of(name)
        if host is None:
            return True
        if self._scheduler.hosts.held_until[host] > self._clock():
            return False
        if reservations.holds(host):
            await reservations.spacing(host)
        elif await reservations.wait(host, self._clock() + WAIT_SECONDS):
            reservations.take(host, self._clock())
        elif among_nodes:
            visit.not_obtained(name)
            return False
        return True

    async def allows(self, host: int, url: str) -> bool:
        """Returns whether the known robots.txt of the host slot allows the URL.

        Long files are evaluated in a worker process, which may take a second: parsing and matching hold the GIL.
        """
        hosts = self._scheduler.hosts
        while (answer := hosts.allows(host, url)) is None:
            text = hosts.robots_text(host)
            if text is not None:
                hosts.note_answer(
                    text, url, await self._workers.do(rules_allow, text, url, effort=Effort(host_of(url)))
                )
        return answer

    async def _delay(self, text: RobotsText) -> float:
        delay = self._scheduler.hosts.delay_in(text)
        return await self._workers.do(rules_delay, text) if delay is None else delay

    def _take(self, host: int, response: RobotsResponse, text: RobotsText | None, delay: float) -> None:
        hosts, now = self._scheduler.hosts, self._clock()
        if response.kind == "unreachable":
            cap = min(self._scheduler.settings.backoff_cap_seconds, _RETRY_CAP_SECONDS)
            failures = int(hosts.robots_failures[host]) + 1
            own = backoff_seconds(failures, self._scheduler.settings.backoff_base_seconds, cap, self._rng)
            wait = lengthened(own, response.retry_after, self._scheduler.settings.backoff_cap_seconds)
            hosts.robots_unreachable(host, now + wait)
            self._say_unreachable(hosts.names[host], response.detail)
            return
        hosts.set_rules(host, text, now, delay)
        kept = StoredRobots(response.kind, now, response.body, response.detail, delay or None)
        if hosts.host_id[host] >= 0:
            self._journal.put_robots(host, kept)

    def _say_unreachable(self, host: str, reason: str) -> None:
        """Logs it once a minute at most: while our own link is down, hosts are tried every second."""
        if self._clock() - self._said_at < _LOG_SECONDS:
            self._unsaid += 1
            return
        self._log.info("robots_unreachable", host=host, reason=reason, suppressed=self._unsaid)
        self._unsaid, self._said_at = 0, self._clock()


def _outcome(response: RobotsResponse, started_at: float) -> Outcome:
    if response.failure is None:
        return Outcome(OutcomeKind.BODY, started_at, response.duration, response.status, body=b"")
    return Outcome(
        response.failure,
        started_at,
        response.duration,
        response.status,
        retry_after=response.retry_after,
        detail=_("robots.txt: {detail}", detail=response.detail),
    )
