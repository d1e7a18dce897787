"""What keeps sites from being polled more often, in words: for the status line, /allocation and doctor alike."""

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
"""Of the time, for finding out what binds: of very many sites it is some seconds old."""
_REMEDIES = {
    PollLimit.MIN_YIELD: "a lower min-yield shortens delays",
    PollLimit.TTL: "most sites ask to be left alone for so long (respect-ttl)",
}


@dataclass(frozen=True, slots=True)
class Binding:
    """What binds, with the setting that is behind it."""

    limit: PollLimit
    reason: str | None
    """None: the budget itself."""
    private: str | None = None
    """Where sites have private addresses, that is said whatever else binds."""

    def in_short(self) -> str | None:
        """For a line that shows the pace beside it; None: nothing is to be said."""
        reason = f"budget not binding: {self.reason}" if self.limit in _REMEDIES else self.reason
        return ", ".join(dict.fromkeys(text for text in (reason, self.private) if text)) or None

    def in_full(self, rate: float, budget: float) -> str:
        """For a person; rate and budget in polls per second."""
        if self.limit is PollLimit.NO_SITES:
            return "no sites to poll"
        used = f"{f'{rate:.0f}' if rate >= 10 else f'{rate:.2g}'} of {budget:g} polls/s used"
        text = f"budget {'' if self.reason is None else 'not '}binding: {used}"
        reasons = dict.fromkeys(text for text in (self.reason or "a larger one shortens delays", self.private) if text)
        return f"{text}; {', '.join(reasons)}"


class BindingWatch:
    """Counts what sites wait for, anew at each question as long as that takes no more than a share of the time.

    A long list is counted beside the loop, while the polling goes on: told is what was found out last.
    """

    def __init__(self, *, scheduler: SchedulerState, meter: BudgetMeter, clock: Callable[[], float]) -> None:
        self._scheduler, self._meter, self._clock = scheduler, meter, clock
        self._waiting: Waiting | None = None
        self._due = 0.0
        self._counting: asyncio.Task[Waiting] | None = None

    async def ready(self) -> None:
        """Returns once `now` has something to tell without counting a long list in the loop, which may take seconds."""
        if self._waiting is None and self._scheduler.sites.size > LONG:
            self._waiting = await asyncio.to_thread(self._count, self._clock())

    def now(self) -> Binding:
        """What binds; of very many sites some seconds ago. The first time they are counted at once."""
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
    """What binds where sites wait so, and `rate` of the budget is used, both in cost per second."""
    limit = waiting.binding(rate, budget)
    private = f"{waiting.private:,} at private addresses: --allow-private" if waiting.private else None
    return Binding(limit, private if limit is PollLimit.PRIVATE else _reason(limit, waiting, settings), private)


def _reason(limit: PollLimit, waiting: Waiting, settings: SchedulingSettings) -> str | None:
    reasons = {
        PollLimit.NO_SITES: "no sites: add one with `pollerd sites add URL`",
        PollLimit.FIRST_ANSWERS: "waiting for the first answers",
        PollLimit.HOST_INTERVAL: _hosts(waiting, settings),
        PollLimit.MIN_INTERVAL: _interval(waiting, settings),
        PollLimit.BACKOFF: f"{waiting.backing_off:,} backing off after failures",
        PollLimit.ROBOTS: f"{waiting.unreachable:,} wait for a robots.txt that cannot be had",
        PollLimit.BLOCKED: f"{waiting.blocked:,} blocked by robots.txt or their address",
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
