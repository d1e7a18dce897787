"""Starts what the dispatcher chose, as tasks: polls, robots.txt requests, or slow evaluations of known rules."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pollerd.daemon.crawler.hook import PageHook
from pollerd.daemon.polling.in_flight import InFlight
from pollerd.daemon.polling.outage_filter import OutageFilter
from pollerd.daemon.polling.poller import Poller
from pollerd.daemon.polling.robots_txt import RobotsKeeper
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.model import Outcome, OutcomeKind
from pollerd.storage import SiteContext

Contexts = Mapping[int, SiteContext]
"""By site id."""


class PollTasks:
    """Runs polls and their prerequisites; passes results to the outage filter."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        poller: Poller,
        robots: RobotsKeeper,
        outage_filter: OutageFilter,
        in_flight: InFlight,
        hook: PageHook,
        runtime: Runtime,
    ) -> None:
        self._scheduler, self._poller, self._robots = scheduler, poller, robots
        self._outage_filter, self.in_flight, self.hook = outage_filter, in_flight, hook
        self._faults, self._clock = runtime.faults, runtime.clock

    def set_aside_unusable(self, slot: int, contexts: Contexts) -> None:
        """Excludes a site whose database row is damaged from polling."""
        site_id = self.in_flight.chosen.get(slot)
        context = None if site_id is None else contexts.get(site_id)
        if context is None:
            return
        reason = context.fault or self._scheduler.unusable.get(context.site_id)
        if reason:
            del self.in_flight.chosen[slot]
            self._outage_filter.put(self._faults.unusable(slot, context, reason))

    def allowed(self, slot: int, host: int, context: SiteContext) -> bool:
        """Returns whether robots.txt allows polling the site now; a denial becomes the site's result.

        If the evaluation is slow it runs in a task, and the site is chosen again later.
        """
        try:
            allowed = self._scheduler.hosts.allows(host, context.url)
            result = None if allowed is not False else _denied(slot, context, self._clock())
        except Exception as error:  # noqa: BLE001
            # URLs and robots.txt are untrusted: a site that breaks their evaluation is set aside, and reported.
            allowed, result = False, self._faults.set_aside(slot, context, error)
        if result is not None:
            del self.in_flight.chosen[slot]
            self._outage_filter.put(result)
        elif allowed is None and self._claim(host):
            del self.in_flight.chosen[slot]
            self.in_flight.spawn(slot, self._look_up_rules(slot, host, context), f"rules-{context.site_id}")
        return allowed is True

    def start_poll(self, slot: int, host: int, context: SiteContext) -> None:
        """Starts the poll of a chosen site; the caller has passed the budget gate and taken a permit."""
        del self.in_flight.chosen[slot]
        self._scheduler.hosts.start(host, self._clock())
        self._scheduler.hosts.lines.end_polls_turn(host)
        self.hook.started()
        self.in_flight.spawn(slot, self._poll(slot, host, context), f"poll-{context.site_id}")

    def start_robots(self, slot: int, contexts: Contexts) -> None:
        """Requests the robots.txt of the slot's host, unless the host is busy."""
        if not self.in_flight.still_chosen(slot) or self.in_flight.chosen[slot] not in contexts:
            return
        host = int(self._scheduler.sites.host[slot])
        if not self._claim(host):
            return
        context = contexts[self.in_flight.chosen.pop(slot)]
        self.in_flight.asking.add(slot)
        self.in_flight.spawn(slot, self._ask_robots(slot, host, context), f"robots-{context.site_id}")

    def _claim(self, host: int) -> bool:
        """Marks the host as busy before a poll of it; returns False if a redirected request holds it."""
        free = self._scheduler.hosts.may_start(host, self._clock())
        if free:
            self._scheduler.hosts.busy[host] = True
        return free

    def _free(self, host: int) -> None:
        """Frees the host after a request; wakes the dispatcher if it waits for a host."""
        self._scheduler.hosts.finish(host)
        if self.in_flight.idling and self._scheduler.hosts.may_start(host, self._clock()):
            self._scheduler.due.set()

    async def _poll(self, slot: int, host: int, context: SiteContext) -> None:
        result = None
        try:
            result = await self._poller.poll(slot, context)
        finally:
            self._free(host)
            self.in_flight.room.release()
            if result is None:
                self.in_flight.release({slot: context.site_id})
        pause = self.hook.pause_after(result.outcome.duration, self._scheduler.hosts.interval_of(host))
        if pause > 0:
            self._scheduler.hosts.rest(host, self._clock() + pause)
        self._outage_filter.put(result)

    async def _ask_robots(self, slot: int, host: int, context: SiteContext) -> None:
        outcome: Outcome | None = None
        aside: PollResult | None = None
        try:
            outcome = await self._robots.ask(host, context.url, context.access.proxy)
        except Exception as error:  # noqa: BLE001
            # As in `allowed`.
            aside = self._faults.set_aside(slot, context, error)
        finally:
            self.in_flight.asking.discard(slot)
            self._free(host)
            if outcome is None and aside is None:
                self.in_flight.release({slot: context.site_id})
        if aside is not None:
            self._outage_filter.put(aside)
        if outcome is None:
            return
        if self._scheduler.hosts.robots_at[host] == -np.inf:  # still unknown: the failure is the site's result
            self._outage_filter.put(PollResult(slot, context, outcome))
            return
        if not outcome.kind.link_suspect:
            self._outage_filter.answered()
        self.in_flight.release({slot: context.site_id})

    async def _look_up_rules(self, slot: int, host: int, context: SiteContext) -> None:
        aside: PollResult | None = None
        try:
            await self._robots.allows(host, context.url)
        except Exception as error:  # noqa: BLE001
            # As in `allowed`.
            aside = self._faults.set_aside(slot, context, error)
        finally:
            self._free(host)
            if aside is None:
                self.in_flight.release({slot: context.site_id})
        if aside is not None:
            self._outage_filter.put(aside)


def _denied(slot: int, context: SiteContext, now: float) -> PollResult:
    outcome = Outcome(OutcomeKind.DENIED, started_at=now, duration=0.0, detail="robots.txt of the host denies it")
    return PollResult(slot, context, outcome, asked=False)
