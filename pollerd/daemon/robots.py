"""Asks hosts for their robots.txt, on an allowance of its own, before anything else is asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import structlog

from pollerd.daemon.fleet import USER_AGENT_TOKEN, Fleet
from pollerd.daemon.gate import BUDGET_MIN, BudgetGate
from pollerd.daemon.journal import Journal
from pollerd.fetching import Fetcher, RobotsResponse, robots_url
from pollerd.model import Outcome, OutcomeKind
from pollerd.scheduling import LONG_BYTES, RobotsRules, backoff_seconds, clamp_retry_after
from pollerd.storage import HostRobots
from pollerd.telemetry import Instruments

PENDING_MAX = 64
"""robots.txt requests that may be waiting or under way at once."""
_RETRY_CAP_SECONDS = 3_600.0


def robots_allowance(budget: float) -> float:
    """robots.txt requests per second: half the budget, so that a new list gets going without doubling the load."""
    return max(budget / 2, BUDGET_MIN)


class RobotsKeeper:
    """Fetches and remembers robots.txt (RFC 9309): absent allows all, unreachable forbids all until it is tried again.

    A robots.txt request counts as a request to its host: spaced, and one at a time.
    """

    def __init__(
        self,
        fleet: Fleet,
        fetcher: Fetcher,
        journal: Journal,
        instruments: Instruments,
        rng: np.random.Generator,
        clock: Callable[[], float],
    ) -> None:
        self._fleet, self._fetcher, self._journal = fleet, fetcher, journal
        self._instruments, self._rng, self._clock = instruments, rng, clock
        self._gate = BudgetGate(robots_allowance(fleet.budget))
        self._turn = asyncio.Lock()
        self._reading = asyncio.Lock()
        """One long text at a time: each thread that parses keeps the interpreter from the loop for 5 ms at once."""
        self._log = structlog.get_logger("pollerd.robots")

    def set_budget(self, budget: float) -> None:
        """Follows a change of the budget."""
        self._gate.budget = robots_allowance(budget)

    async def ask(self, host: int, page_url: str, proxy: str | None) -> Outcome:
        """Asks the host slot for the robots.txt that rules `page_url`; the caller has marked the host busy.

        `proxy`: that of the site that is to be polled; nothing else of the site is sent.

        Returns what a poll would say of the same answer (`kind` is BODY where the host answered usefully).
        """
        async with self._turn:
            await self._gate.acquire()
        hosts = self._fleet.hosts
        started_at = self._clock()
        hosts.start(host, started_at)
        try:
            response = await self._fetcher.fetch_robots(robots_url(page_url), proxy)
            rules = await self._read(response)
        finally:
            hosts.finish(host)
        self._instruments.robots[response.kind].inc()
        self._take(host, response, rules)
        return _outcome(response, started_at)

    async def allows(self, host: int, url: str) -> bool:
        """Whether what is known of the host slot's robots.txt lets us ask for the URL."""
        await self.read_again(host)
        return self._fleet.hosts.allows(host, url)

    async def read_again(self, host: int) -> None:
        """Where the host slot's robots.txt is long and not held parsed, parses it beside the loop."""
        hosts = self._fleet.hosts
        if hosts.unread(host) is None:
            return
        async with self._reading:
            packed = hosts.unread(host)  # an equal one may have been read meanwhile
            if packed is not None:
                hosts.hold(packed, await asyncio.to_thread(packed.read))

    async def _read(self, response: RobotsResponse) -> RobotsRules:
        if response.body is None or len(response.body) < LONG_BYTES:
            return RobotsRules.parse(response.body, USER_AGENT_TOKEN, self._clock())
        async with self._reading:
            return await asyncio.to_thread(RobotsRules.parse, response.body, USER_AGENT_TOKEN, self._clock())

    def _take(self, host: int, response: RobotsResponse, rules: RobotsRules) -> None:
        hosts, now = self._fleet.hosts, self._clock()
        if response.kind == "unreachable":
            cap = min(self._fleet.settings.backoff_cap_seconds, _RETRY_CAP_SECONDS)
            asked = clamp_retry_after(response.retry_after, self._fleet.settings.backoff_cap_seconds)
            failures = int(hosts.robots_failures[host]) + 1
            own = backoff_seconds(failures, self._fleet.settings.backoff_base_seconds, cap, self._rng)
            hosts.robots_unreachable(host, now + (own if asked is None else asked))
            self._log.info("robots_unreachable", host=hosts.names[host], reason=response.detail)
            return
        hosts.set_rules(host, rules)
        kept = HostRobots(response.kind, rules.fetched_at, response.body, response.detail, rules.crawl_delay() or None)
        if hosts.host_id[host] >= 0:
            self._journal.put_robots(host, kept)


def _outcome(response: RobotsResponse, started_at: float) -> Outcome:
    if response.failure is None:
        return Outcome(OutcomeKind.BODY, started_at, response.duration, response.status, body=b"")
    return Outcome(
        response.failure,
        started_at,
        response.duration,
        response.status,
        retry_after=response.retry_after,
        detail=f"robots.txt: {response.detail}",
    )
