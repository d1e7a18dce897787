"""Explains in words why sites are not polled more often, for the status line, /allocation and doctor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from pollerd import quantities
from pollerd.daemon.polling.budget_meter import BudgetMeter
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.scheduling import PollLimit, SchedulingSettings, Waiting
from pollerd.scheduling.eligibility import LONG
from pollerd.scheduling.waiting import waiting

SHARE = 0.02
"""Largest share of the time spent on finding the binding limit; for long lists the answer is some seconds old."""
_REMEDIES = {
    PollLimit.MIN_YIELD: "a lower min-yield shortens delays",
    PollLimit.TTL: "most sites ask to be left alone for so long (respect-ttl)",
}


@dataclass(frozen=True, slots=True)
class Binding:
    """The binding limit, and the setting behind it."""

    limit: PollLimit
    reason: str | None
    """None: the budget itself binds."""
    private: str | None = None
    """Notice about sites at private addresses, given whatever limit binds."""
    closed: str | None = None
    """Notice about sites outside of their windows, given whatever limit binds."""

    def in_short(self) -> str | None:
        """Returns the text for a line that also shows the rate; None: there is nothing to report."""
        reason = f"budget not binding: {self.reason}" if self.limit in _REMEDIES else self.reason
        return ", ".join(dict.fromkeys(text for text in (reason, self.private, self.closed) if text)) or None

    def in_full(self, rate: float, budget: float) -> str:
        """Returns the full text for the user; rate and budget in polls per second."""
        if self.limit is PollLimit.NO_SITES:
            return "no sites to poll"
        used = f"{f'{rate:.0f}' if rate >= 10 else f'{rate:.2g}'} of {budget:g} polls/s used"
        text = f"budget {'' if self.reason is None else 'not '}binding: {used}"
        reason = self.reason or "a larger one shortens delays"
        reasons = dict.fromkeys(text for text in (reason, self.private, self.closed) if text)
        return f"{text}; {', '.join(reasons)}"


class BindingWatch:
    """Counts the sites by what they wait for, within `SHARE` of the time.

    A long list is counted in a thread while polling continues; meanwhile the previous count is reported.
    """

    def __init__(self, *, scheduler: SchedulerState, meter: BudgetMeter, clock: Callable[[], float]) -> None:
        self._scheduler, self._meter, self._clock = scheduler, meter, clock
        self._waiting: Waiting | None = None
        self._due = 0.0
        self._counting: asyncio.Task[Waiting] | None = None

    async def ready(self) -> None:
        """Makes the first count of a long list in a thread, so that `now` does not block the loop for seconds."""
        if self._waiting is None and self._scheduler.sites.size > LONG:
            self._waiting = await asyncio.to_thread(self._count, self._clock())

    def now(self) -> Binding:
        """Returns the binding limit; for long lists it is some seconds old. The first call counts at once."""
        found = self._counted()
        return binding(found, self._scheduler.settings, self._meter.rate(), self._scheduler.budget)

    def _counted(self) -> Waiting:
        if self._counting is not None and self._counting.done():
            self._waiting, self._counting = self._counting.result(), None
        if self._waiting is None or (time.monotonic() >= self._due and self._scheduler.sites.size <= LONG):
            self._waiting = self._count(self._clock())
        elif time.monotonic() >= self._due and self._counting is None:
            self._counting = asyncio.create_task(asyncio.to_thread(self._count, self._clock()), name="count_waiting")
        return self._waiting

    def _count(self, at: float) -> Waiting:
        scheduler, began = self._scheduler, time.monotonic()
        found = waiting(scheduler.sites, scheduler.hosts, scheduler.settings, at)
        now = time.monotonic()
        self._due = now + (now - began) * (1 / SHARE - 1)
        return found


def binding(waiting: Waiting, settings: SchedulingSettings, rate: float, budget: float) -> Binding:
    """Returns the binding limit for these counts; `rate` of the budget is used, both in cost per second."""
    limit = waiting.binding(rate, budget)
    private = f"{waiting.private:,} at private addresses: --allow-private" if waiting.private else None
    closed = f"closed: {waiting.closed:,}" if waiting.closed else None
    reason = private if limit is PollLimit.PRIVATE else _reason(limit, waiting, settings)
    return Binding(limit, reason, private, closed)


def _reason(limit: PollLimit, waiting: Waiting, settings: SchedulingSettings) -> str | None:
    reasons = {
        PollLimit.NO_SITES: "no sites: add one with `pollerd sites add URL`",
        PollLimit.FIRST_ANSWERS: "waiting for the first answers",
        PollLimit.HOST_INTERVAL: _hosts(waiting, settings),
        PollLimit.MIN_INTERVAL: _interval(waiting, settings),
        PollLimit.BACKOFF: f"{waiting.backing_off:,} backing off after failures",
        PollLimit.ROBOTS: f"{waiting.unreachable:,} wait for a robots.txt that cannot be had",
        PollLimit.BLOCKED: f"{waiting.blocked:,} blocked by robots.txt or their address",
        PollLimit.CLOSED: f"closed: {waiting.closed:,}",
        PollLimit.PAUSED: f"{waiting.paused:,} paused",
        PollLimit.GONE: f"{waiting.gone:,} gone",
        **_REMEDIES,
    }
    return reasons.get(limit)


def _hosts(waiting: Waiting, settings: SchedulingSettings) -> str:
    hosts = "1 host" if waiting.hosts == 1 else f"{waiting.hosts:,} hosts"
    if waiting.crawl_delay:
        return f"{hosts}: Crawl-delay of robots.txt"
    return f"{hosts}: --host-interval {quantities.duration(settings.host_interval_seconds)}"


def _interval(waiting: Waiting, settings: SchedulingSettings) -> str:
    if waiting.own_interval:
        return "each waits for its own min_interval"
    return f"each waits {quantities.duration(settings.min_interval_seconds)}: --min-interval"
