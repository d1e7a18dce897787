"""The loop that spends the budget: chooses sites, waits for the gate, starts polls."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence

import numpy as np

from pollerd.daemon.polling.budget import Budget
from pollerd.daemon.polling.cadence import Cadence
from pollerd.daemon.polling.outage_filter import OutageFilter
from pollerd.daemon.polling.poll_tasks import Contexts, PollTasks
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.errors import DatabaseUnavailableError
from pollerd.scheduling import PROBE_SECONDS, Chooser, next_due

_LONGEST_SLEEP_SECONDS = 10.0
"""Longest sleep: the loop's clock stops while the machine is suspended, so sites may be due before it wakes."""
_IDLE_CAP_SECONDS = 1.0
"""Longest wait between choices while a site seems due but cannot be chosen yet."""
_STORAGE_RETRY_SECONDS = 0.5
_ROOM_SECONDS = 1.0
_LIMIT_RETRY_SECONDS = 0.02


class Dispatcher:
    """Starts polls under the budget, in the chooser's order."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        chooser: Chooser,
        budget: Budget,
        tasks: PollTasks,
        outage_filter: OutageFilter,
        site_cache: SiteCache,
        runtime: Runtime,
    ) -> None:
        """Must be called inside the running event loop."""
        self._scheduler, self._chooser, self._budget, self._tasks = scheduler, chooser, budget, tasks
        self._in_flight, self._hook = tasks.in_flight, tasks.hook
        self._outage_filter, self._site_cache = outage_filter, site_cache
        self._settings, self._health = runtime.settings, runtime.health
        self._tick_metric, self._rng, self._clock = runtime.instruments.tick, runtime.rng, runtime.clock
        self._cadence = Cadence(runtime.settings.tick_seconds)
        self._next_turn_due = time.monotonic()

    @property
    def next_turn_due(self) -> float:
        """Time by which the loop should run again (monotonic s): it wakes only when something is due."""
        return max(self._next_turn_due, self._budget.gate.next_turn_due)

    async def run(self) -> None:
        """Spends the budget until cancelled."""
        idle = self._settings.tick_seconds
        while True:
            self._next_turn_due = time.monotonic()
            self._scheduler.due.clear()
            self._outage_filter.review()
            if not await self._may_poll():
                continue
            started = self._probe() if self._outage_filter.offline else self._round()
            if await started:
                idle = self._settings.tick_seconds
                await self._rest(self._cadence.choose_again_at - time.monotonic())
            else:
                with self._budget.meter.idle(self._cadence.nothing_due):
                    await self._idle(min(max(idle, self._due_in()), _LONGEST_SLEEP_SECONDS))
                idle = min(idle * 1.5, _IDLE_CAP_SECONDS)

    async def _may_poll(self) -> bool:
        """Returns False, after a short wait, while the database does not accept commits, or there is no budget."""
        if not await self._come(self._health.takes_commits, _STORAGE_RETRY_SECONDS):
            return False
        return await self._come(self._budget.granted, _STORAGE_RETRY_SECONDS)

    async def _rest(self, seconds: float) -> None:
        """Sleeps; the delay does not count as a stall."""
        if seconds > 0:
            self._next_turn_due = time.monotonic() + seconds
            await asyncio.sleep(seconds)

    async def _come(self, event: asyncio.Event, seconds: float) -> bool:
        """Returns whether the event is set, or becomes set within `seconds`."""
        if event.is_set():
            return True
        self._next_turn_due = time.monotonic() + seconds
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def _take_room(self) -> None:
        """Waits for a permit for one more poll in flight; waiting for slow servers does not count as a stall."""
        while not await self._come(self._budget.pacer.keeps_up, _ROOM_SECONDS):
            pass
        while not self._hook.may_start():
            await self._rest(_LIMIT_RETRY_SECONDS)
        room, ended = self._in_flight.room, self._in_flight.ended
        while room.locked():
            await self._come(ended, _ROOM_SECONDS)
            ended.clear()
        await room.acquire()

    def _due_in(self) -> float:
        """Returns the seconds until a site may be polled or a review is due, unless an event comes first."""
        wait = min(self._cadence.due_in, self._outage_filter.review_in)
        if wait <= self._settings.tick_seconds:
            return wait
        began, scheduler = time.perf_counter(), self._scheduler
        due = next_due(scheduler.sites, scheduler.hosts, self._clock(), scheduler.settings.min_interval_seconds)
        self._cadence.looked(time.perf_counter() - began)
        return min(wait, due)

    async def _idle(self, seconds: float) -> None:
        """Waits for `seconds` or until a site may be polled, but limits the time spent on choosing."""
        until = time.monotonic() + seconds
        self._in_flight.idling = True
        try:
            woken = await self._come(self._scheduler.due, seconds)
        finally:
            self._in_flight.idling = False
        if woken:
            await self._rest(min(self._cadence.rested_at, until) - time.monotonic())

    async def _round(self) -> bool:
        """Chooses for one tick and starts the chosen sites; returns False if nothing could be started."""
        began, scheduler, rate = time.perf_counter(), self._scheduler, self._budget.rate
        self._in_flight.mark_turn()
        scheduler.sites.proofs.earn(self._clock(), rate)
        choice = self._chooser.choose(
            scheduler.allocator,
            self._clock(),
            self._cadence.number(rate, ahead=self._hook.chooses_ahead),
            scheduler.uniform_period(),
            self._budget.most_robots_pending() - len(self._in_flight.asking),
        )
        took = time.perf_counter() - began
        self._tick_metric.observe(took)
        self._cadence.chose(took, choice.again_in, nothing_due=not choice.sites_due)
        return await self._start(choice.polls, choice.robots)

    async def _probe(self) -> bool:
        """While our own link is down: polls one site per second, even if earlier polls hang, to detect its return.

        Returns True as soon as the link is back.
        """
        if await self._come(self._outage_filter.online, PROBE_SECONDS):
            return True
        scheduler = self._scheduler
        mask = self._chooser.eligible(self._clock(), 0.0)
        slots = np.flatnonzero(mask & np.isfinite(scheduler.sites.last_seen[: scheduler.sites.size]))
        slots = slots if len(slots) else np.flatnonzero(mask)
        if not len(slots):
            return False
        slot = int(self._rng.choice(slots))
        ask_robots = scheduler.hosts.robots_wanted(self._clock())[scheduler.sites.host[slot]]
        return await self._start([], [slot]) if ask_robots else await self._start([slot], [])

    async def _start(self, polls: Sequence[int], robots: Sequence[int]) -> bool:
        """Starts the polls and robots.txt requests of these slots; returns whether at least one was started."""
        chosen = [*polls, *robots]
        if not chosen:
            return False
        self._in_flight.reserve(chosen)
        started = True
        try:
            await self._start_chosen(polls, robots)
        except DatabaseUnavailableError as error:
            self._health.failed("reads", str(error))
            await self._rest(_STORAGE_RETRY_SECONDS)
            started = False
        finally:
            left = self._in_flight.release_chosen()
        return started and left < len(chosen)

    async def _start_chosen(self, polls: Sequence[int], robots: Sequence[int]) -> None:
        contexts = await self._site_cache.get(list(self._in_flight.chosen.values()))
        self._health.works("reads")
        for slot in (*polls, *robots):
            self._tasks.set_aside_unusable(slot, contexts)
        for slot in robots:
            self._tasks.start_robots(slot, contexts)
        for slot in polls:
            await self._start_poll(slot, contexts)
            if self._scheduler.due.is_set() or self._outage_filter.offline or not self._health.takes_commits.is_set():
                break

    async def _start_poll(self, slot: int, contexts: Contexts) -> None:
        """Starts one poll once robots.txt, permit and budget gate allow it, unless the site changed meanwhile."""
        if not self._in_flight.still_chosen(slot):
            return
        context = contexts.get(self._in_flight.chosen[slot])
        if context is None:
            return
        sites, hosts = self._scheduler.sites, self._scheduler.hosts
        host, cost = int(sites.host[slot]), float(sites.cost[slot])
        if not self._tasks.allowed(slot, host, context):
            return
        await self._take_room()
        await self._budget.gate.acquire(cost)
        if (
            self._scheduler.settings_outdated(context)
            or not self._in_flight.still_chosen(slot)
            or not hosts.may_start(host, self._clock())
            or not self._scheduler.is_open(slot, self._clock())
        ):
            self._in_flight.room.release()
            return
        self._budget.meter.note_start(cost)
        sites.proofs.started(slot, cost)
        self._tasks.start_poll(slot, host, context)
