"""The dispatcher, which spends the budget: chooses sites, waits for the gate, starts polls."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial

import numpy as np

from pollerd.daemon.budget import Budget
from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.outage_filter import OutageFilter
from pollerd.daemon.poll_result import PollResult, SiteCache
from pollerd.daemon.poller import Poller
from pollerd.daemon.process import LagWatch
from pollerd.daemon.robots import RobotsKeeper
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Outcome, OutcomeKind
from pollerd.scheduling.choice import Chooser, next_due
from pollerd.scheduling.outage import PROBE_SECONDS
from pollerd.storage.values import SiteContext
from pollerd.telemetry import Instruments

# The cadence of choices: no later than the next due time, no more often than choosing may cost.

_CHOOSING_SHARE = 0.05
"""If choosing takes longer than this share of a tick, the tick is lengthened."""
_CHOOSING_MOST = 0.25
"""Largest share of the time for choosing even if everything chosen starts at once (robots.txt of new hosts): the rest
is for answers and API calls."""
_TICK_CAP_SECONDS = 1.0
_AHEAD_SECONDS, _AHEAD_POLLS = 1.0, 16
"""Choosing one site costs nearly as much as choosing several: up to this many are chosen up to this far ahead, however
short a tick. If a site becomes due meanwhile, those not started are chosen again."""


class Cadence:
    """Derives the time of the next choice from the duration and result of the last one. Times are monotonic seconds."""

    def __init__(self, tick_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._shortest, self._clock = tick_seconds, clock
        self.tick = tick_seconds
        """Seconds that one choice looks ahead."""
        self.choose_again_at = -math.inf
        """Earliest time of the next choice after polls were started."""
        self.rested_at = -math.inf
        """Earliest time of the next choice after nothing was started, whatever wakes the dispatcher."""
        self.due_in = math.inf
        """Seconds from the last choice until a site that it skipped may be polled; inf: unknown or never."""
        self.nothing_due = False
        """Whether the last choice found no site due."""

    def number(self, rate: float, *, ahead: bool) -> int:
        """Returns how many sites to choose at a budget of `rate` per second.

        `ahead`: sites may be chosen before they can start. False if each answer decides what to request next.
        """
        soon = min(int(rate * _AHEAD_SECONDS), _AHEAD_POLLS) if ahead else 0
        return max(1, soon, int(rate * self.tick))

    def chose(self, took: float, due_in: float, *, nothing_due: bool) -> None:
        """Records a choice that took `took` seconds and has just ended."""
        now = self._clock()
        self.tick = min(max(self._shortest, took / _CHOOSING_SHARE), _TICK_CAP_SECONDS)
        self.choose_again_at = now + took * (1 / _CHOOSING_MOST - 1)
        self.rested_at = now + took * (1 / _CHOOSING_SHARE - 1)
        self.due_in, self.nothing_due = due_in, nothing_due

    def looked(self, took: float) -> None:
        """Records a search for the next due site that took `took` seconds: it counts as a choice."""
        self.rested_at += took * (1 / _CHOOSING_SHARE - 1)


# Sites that are chosen or being polled, and their tasks.


class InFlight:
    """Reserves the chosen sites, runs one task for each, and frees sites and hosts."""

    def __init__(self, *, scheduler: SchedulerState, most: int, instruments: Instruments) -> None:
        """`most`: maximum of concurrent polls. Must be called inside the running event loop."""
        self._scheduler = scheduler
        self._lag = LagWatch(instruments)
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.chosen: dict[int, int] = {}
        """Slot -> site id of the chosen sites that have not started."""
        self.asking: set[int] = set()
        """Slots whose host's robots.txt is being requested."""
        self.room = asyncio.Semaphore(most)
        """One permit per poll in flight."""
        self.ended = asyncio.Event()
        """Set whenever a task ends."""
        self.idling = False
        """Whether the dispatcher waits because nothing could be started: freeing a site or host wakes it."""
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Receives the exception of a failed task: an internal fault that ends the daemon."""
        instruments.inflight.set_function(lambda: len(self._tasks))

    def __len__(self) -> int:
        """Returns the number of polls and robots.txt requests in flight."""
        return len(self._tasks)

    @property
    def loop_lag(self) -> float:
        """How late the event loop ran a timer, s, at worst in the last 15."""
        return self._lag.worst()

    def reserve(self, slots: list[int]) -> None:
        """Marks chosen sites so that they are not chosen again."""
        sites = self._scheduler.sites
        self.chosen = {slot: int(sites.site_id[slot]) for slot in slots}
        sites.in_flight[slots] = True
        sites.touch(slots)

    def release_chosen(self) -> int:
        """Frees the chosen sites that did not start; returns how many."""
        left, self.chosen = self.chosen, {}
        self.release(left)
        return len(left)

    def release(self, ids: dict[int, int]) -> None:
        """Frees reserved sites, slot -> site id, that will not be polled."""
        sites = self._scheduler.sites
        for slot, site_id in ids.items():
            if sites.site_id[slot] == site_id:
                sites.in_flight[slot] = False
                sites.touch([slot])
        if self.idling:  # the next due time was computed as if these were polled
            self._scheduler.due.set()

    def still_chosen(self, slot: int) -> bool:
        """Returns whether the chosen site is still to be polled: not removed, moved or paused meanwhile."""
        return slot in self.chosen and not self._scheduler.sites.paused[slot]

    def abandon(self, slot: int) -> None:
        """Cancels the work for the slot after its site was removed."""
        self.chosen.pop(slot, None)
        task = self._tasks.get(slot)
        if task is not None:
            # Not at once: a task cancelled before its first step would never free its permit and its host.
            self._loop.call_soon(task.cancel)

    def mark_turn(self) -> None:
        """Measures how long this iteration of the event loop takes."""
        self._lag.mark()

    def spawn(self, slot: int, work: Coroutine[None, None, None], name: str) -> None:
        """Runs the work for the slot as a task of this name."""
        task = self._loop.create_task(work, name=name)
        self._tasks[slot] = task
        self._lag.begin()
        task.add_done_callback(partial(self._done, slot))

    def _done(self, slot: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(slot) is task:
            del self._tasks[slot]
        self.ended.set()
        if self._tasks:
            self._lag.begin()
        else:
            self._lag.end()
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not self.failed.done():
            self.failed.set_exception(fault)

    async def drain(self, seconds: float) -> bool:
        """Waits up to `seconds` for the polls in flight and cancels the rest; returns whether none was left.

        Cancels robots.txt requests at once: no poll waits for them any more.
        """
        for slot in self.asking & self._tasks.keys():
            self._tasks[slot].cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=seconds)
        return not await self.call_off()

    async def call_off(self) -> int:
        """Cancels all tasks and waits for their end; returns how many there were."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # what one raised is in `failed`
        return len(tasks)


# Tasks of the chosen sites: polls, robots.txt requests, or slow evaluations of known rules.

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
            await self._scheduler.budget_fit.fit_to_growth()
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
        if not await self._wait_for(self._health.takes_commits, _STORAGE_RETRY_SECONDS):
            return False
        return await self._wait_for(self._budget.granted, _STORAGE_RETRY_SECONDS)

    async def _rest(self, seconds: float) -> None:
        """Sleeps; the delay does not count as a stall."""
        if seconds > 0:
            self._next_turn_due = time.monotonic() + seconds
            await asyncio.sleep(seconds)

    async def _wait_for(self, event: asyncio.Event, seconds: float) -> bool:
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

    async def _acquire_permit(self) -> None:
        """Waits for a permit for one more poll in flight; waiting for slow servers does not count as a stall."""
        while not await self._wait_for(self._budget.pacer.keeps_up, _ROOM_SECONDS):
            pass
        while not self._hook.may_start():
            await self._rest(_LIMIT_RETRY_SECONDS)
        room, ended = self._in_flight.room, self._in_flight.ended
        while room.locked():
            await self._wait_for(ended, _ROOM_SECONDS)
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
            woken = await self._wait_for(self._scheduler.due, seconds)
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
        if await self._wait_for(self._outage_filter.online, PROBE_SECONDS):
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
        await self._acquire_permit()
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
