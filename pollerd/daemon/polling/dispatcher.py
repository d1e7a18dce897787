"""The loop that spends the budget: choose, wait for the gate, start the poll."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial

import numpy as np
import structlog

from pollerd.crawling.control.concurrency import pause_s
from pollerd.daemon.crawler.concurrency import ConcurrencyLimiter
from pollerd.daemon.polling.budget_gate import BudgetGate
from pollerd.daemon.polling.budget_meter import BudgetMeter
from pollerd.daemon.polling.outage_filter import OutageFilter
from pollerd.daemon.polling.poller import Poller
from pollerd.daemon.polling.robots_txt import RobotsKeeper, most_pending
from pollerd.daemon.polling.write_pacer import WritePacer
from pollerd.daemon.process.loop_lag import LagWatch
from pollerd.daemon.state.faults import Faults
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.settings import DaemonSettings
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.daemon.state.storage_health import StorageHealth
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Outcome, OutcomeKind
from pollerd.scheduling import PROBE_SECONDS, Chooser, next_due
from pollerd.storage import SiteContext
from pollerd.telemetry import Instruments

_LONGEST_SLEEP_SECONDS = 10.0
"""The clock that the loop sleeps by stands still while the machine is suspended: sites are due before it rings."""
_IDLE_CAP_SECONDS = 1.0
"""Where something seems due that may not be chosen yet, it is looked at again at least so often."""
_STORAGE_RETRY_SECONDS = 0.5
_ROOM_SECONDS = 1.0
_PACE_RETRY_SECONDS = 0.02
_CHOOSING_SHARE = 0.05
"""With so many sites that choosing takes longer than this share of a tick, it is done for a longer time ahead."""
_TICK_CAP_SECONDS = 1.0
_AHEAD_SECONDS, _AHEAD_POLLS = 1.0, 16
"""Choosing one site costs nearly what choosing a few does: so far ahead so many at most are chosen at once, however
short a tick. What comes meanwhile and may be polled at once (`wake`) has those chosen anew that have not started."""
_CHOOSING_MOST = 0.25
"""Share of the time that choosing may take even where all that was chosen could start at once (robots.txt of hosts that
are new): the rest is that of answers and calls."""


class Dispatcher:
    """Starts polls under the budget, in the order that the chooser names."""

    def __init__(
        self,
        scheduler: SchedulerState,
        gate: BudgetGate,
        poller: Poller,
        robots: RobotsKeeper,
        outage_filter: OutageFilter,
        health: StorageHealth,
        memories: SiteCache,
        meter: BudgetMeter,
        faults: Faults,
        settings: DaemonSettings,
        instruments: Instruments,
        rng: np.random.Generator,
        clock: Callable[[], float],
        pace: ConcurrencyLimiter | None = None,
        *,
        pacer: WritePacer,
        lag: LagWatch,
    ) -> None:
        """`pacer`: where so many wait to be written that it does not keep up, no more are started.

        `pace`: decides how many polls are under way at once, within the most allowed; None: nobody does.
        """
        self._pace, self._pacer, self._lag = pace, pacer, lag
        self._scheduler, self._gate, self._poller, self._robots = scheduler, gate, poller, robots
        self._outage_filter, self._health, self._memories, self._meter = outage_filter, health, memories, meter
        self._faults, self._settings, self._instruments = faults, settings, instruments
        self._rng, self._clock = rng, clock
        self._chooser = Chooser(scheduler.sites, scheduler.hosts, scheduler.settings)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        instruments.inflight.set_function(lambda: len(self._tasks))
        self._asking: set[int] = set()
        self._chosen: dict[int, int] = {}
        self._tick = settings.tick_seconds
        self._choose_again_at = self._rested_at = -math.inf
        self._again_in = math.inf
        self._nothing_due = False
        self._room = asyncio.Semaphore(settings.max_inflight)
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._idling = False
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Gets the exception of a poll that raised: a fault of ours, which must take the daemon down."""
        self._turns_by = time.monotonic()
        self._log = structlog.get_logger("pollerd.dispatch")

    @property
    def turns_by(self) -> float:
        """By when the loop was to turn again (monotonic s): it wakes when something is due, not before."""
        return max(self._turns_by, self._gate.turns_by)

    @property
    def in_flight(self) -> int:
        """Polls and robots.txt requests under way."""
        return len(self._tasks)

    @property
    def chooser(self) -> Chooser:
        """Whom the loop would choose from."""
        return self._chooser

    def wake(self) -> None:
        """Something came that may be polled at once."""
        self._wake.set()

    def abandon(self, slot: int) -> None:
        """The site in the slot is gone: what is under way for it is called off."""
        self._chosen.pop(slot, None)
        task = self._tasks.get(slot)
        if task is not None:
            # Not at once: a task cancelled before its first step would never give back its room and its host.
            self._loop.call_soon(task.cancel)

    async def run(self) -> None:
        """Spends the budget until cancelled."""
        idle = self._settings.tick_seconds
        while True:
            self._turns_by = time.monotonic()
            self._wake.clear()
            self._outage_filter.review()
            if not await self._may_poll():
                continue
            started = self._probe() if self._outage_filter.offline else self._round()
            if await started:
                idle = self._settings.tick_seconds
                await self._rest(self._choose_again_at - time.monotonic())
            else:
                with self._meter.idle(self._nothing_due):
                    await self._idle(min(max(idle, self._due_in()), _LONGEST_SLEEP_SECONDS))
                idle = min(idle * 1.5, _IDLE_CAP_SECONDS)

    async def drain(self) -> bool:
        """Waits for the polls under way, as long as the settings allow; calls off the rest, and says whether none was.

        Hosts that were still to be asked for robots.txt are not asked any more: nobody waits for it.
        """
        for slot in self._asking & self._tasks.keys():
            self._tasks[slot].cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=self._settings.drain_seconds)
        return not await self.call_off()

    async def call_off(self) -> int:
        """Ends what is under way at once; returns how many polls that were."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(tasks)

    async def _may_poll(self) -> bool:
        """False, after a short wait, while the database does not take commits."""
        return await self._come(self._health.takes_commits, _STORAGE_RETRY_SECONDS)

    async def _rest(self, seconds: float) -> None:
        """A wait on purpose, by the end of which the loop turns."""
        if seconds > 0:
            self._turns_by = time.monotonic() + seconds
            await asyncio.sleep(seconds)

    async def _come(self, event: asyncio.Event, seconds: float) -> bool:
        """Whether the event is set, or comes to be within so long; by then the loop turns."""
        if event.is_set():
            return True
        self._turns_by = time.monotonic() + seconds
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def _take_room(self) -> None:
        """Waits until fewer polls than the most allowed are under way; slow servers are no standstill of ours."""
        while not await self._come(self._pacer.keeps_up, _ROOM_SECONDS):
            pass
        while self._pace is not None and not self._pace.may_start:
            await self._rest(_PACE_RETRY_SECONDS)
        while self._room.locked():
            await self._come(self._ended, _ROOM_SECONDS)
            self._ended.clear()
        await self._room.acquire()

    def _due_in(self) -> float:
        """Seconds until something may be polled, or is to be reviewed, unless something happens before."""
        wait = min(self._again_in, self._outage_filter.review_in)
        if wait <= self._settings.tick_seconds:
            return wait
        began = time.perf_counter()
        settings = self._scheduler.settings
        wait = min(
            wait, next_due(self._scheduler.sites, self._scheduler.hosts, self._clock(), settings.min_interval_seconds)
        )
        self._rested_at += (time.perf_counter() - began) * (1 / _CHOOSING_SHARE - 1)
        return wait

    async def _idle(self, seconds: float) -> None:
        """Waits so long, or until something may be polled; choosing takes its share of the time then, too."""
        until = time.monotonic() + seconds
        self._idling = True
        try:
            woken = await self._come(self._wake, seconds)
        finally:
            self._idling = False
        if woken:
            await self._rest(min(self._rested_at, until) - time.monotonic())

    def _free(self, host: int) -> None:
        """A request to the host is over: where nothing could be asked meanwhile, and it may be, it is chosen anew."""
        self._scheduler.hosts.finish(host)
        if self._idling and self._scheduler.hosts.may_start(host, self._clock()):
            self._wake.set()

    async def _round(self) -> bool:
        """Chooses for one tick and starts what was chosen; False where there was nothing to start."""
        began = time.perf_counter()
        self._lag.mark()
        k = max(1, self._ahead(), int(self._gate.budget * self._tick))
        room = most_pending(self._gate.budget) - len(self._asking)
        choice = self._chooser.choose(
            self._scheduler.allocator, self._clock(), k, self._scheduler.uniform_period(), room
        )
        took = time.perf_counter() - began
        self._instruments.tick.observe(took)
        self._tick = min(max(self._settings.tick_seconds, took / _CHOOSING_SHARE), _TICK_CAP_SECONDS)
        self._choose_again_at = time.monotonic() + took * (1 / _CHOOSING_MOST - 1)
        self._rested_at = time.monotonic() + took * (1 / _CHOOSING_SHARE - 1)
        self._again_in = choice.again_in
        self._nothing_due = not choice.sites_due
        return await self._start(choice.polls, choice.robots)

    def _ahead(self) -> int:
        """How many may be chosen at once though a tick is shorter: none where what is found decides what comes next."""
        return 0 if self._pace is not None else min(int(self._gate.budget * _AHEAD_SECONDS), _AHEAD_POLLS)

    async def _probe(self) -> bool:
        """While offline: each second one poll of one site, though those before still hang, to learn when we are back.

        True at once where we are.
        """
        if await self._come(self._outage_filter.online, PROBE_SECONDS):
            return True
        mask = self._chooser.eligible(self._clock(), 0.0)
        slots = np.flatnonzero(mask & np.isfinite(self._scheduler.sites.last_seen[: self._scheduler.sites.size]))
        slots = slots if len(slots) else np.flatnonzero(mask)
        if not len(slots):
            return False
        slot = int(self._rng.choice(slots))
        ask_robots = self._scheduler.hosts.robots_wanted(self._clock())[self._scheduler.sites.host[slot]]
        return await self._start([], [slot]) if ask_robots else await self._start([slot], [])

    async def _start(self, polls: Sequence[int], robots: Sequence[int]) -> bool:
        sites = self._scheduler.sites
        chosen = [*polls, *robots]
        if not chosen:
            return False
        self._chosen = {slot: int(sites.site_id[slot]) for slot in chosen}
        sites.in_flight[chosen] = True
        sites.touch(chosen)
        try:
            memories = await self._memories.get(list(self._chosen.values()))
            self._health.works("reads")
            for slot in chosen:
                self._set_aside_unusable(slot, memories)
            for slot in robots:
                self._start_robots(slot, memories)
            for slot in polls:
                await self._start_poll(slot, memories)
                if self._wake.is_set() or self._outage_filter.offline or not self._health.takes_commits.is_set():
                    break
        except DatabaseUnavailableError as error:
            self._health.failed("reads", str(error))
            await self._rest(_STORAGE_RETRY_SECONDS)
            return False
        finally:
            left, self._chosen = self._chosen, {}
            self._unreserve(left)
        return len(left) < len(chosen)

    def _unreserve(self, ids: dict[int, int]) -> None:
        for slot, site_id in ids.items():
            if self._scheduler.sites.site_id[slot] == site_id:
                self._scheduler.sites.in_flight[slot] = False
                self._scheduler.sites.touch([slot])
        if self._idling:  # when the next is due was worked out as if these were going to be polled
            self._wake.set()

    def _set_aside_unusable(self, slot: int, memories: Mapping[int, SiteContext]) -> None:
        """Sites whose row in the database is damaged are not polled."""
        site_id = self._chosen.get(slot)
        memory = None if site_id is None else memories.get(site_id)
        if memory is None:
            return
        reason = memory.fault or self._scheduler.unusable.get(memory.site_id)
        if reason:
            del self._chosen[slot]
            self._outage_filter.put(self._faults.unusable(slot, memory, reason))

    def _still_on(self, slot: int) -> bool:
        """Whether the chosen site is to be polled after all: not gone, moved or paused meanwhile."""
        return slot in self._chosen and not self._scheduler.sites.paused[slot]

    async def _start_poll(self, slot: int, memories: Mapping[int, SiteContext]) -> None:
        if not self._still_on(slot):
            return
        memory = memories.get(self._chosen[slot])
        if memory is None:
            return
        host = int(self._scheduler.sites.host[slot])
        if not self._allowed(slot, host, memory):
            return
        await self._take_room()
        cost = float(self._scheduler.sites.cost[slot])
        await self._gate.acquire(cost)
        outdated = memory.settings_changed_at != self._scheduler.settings_pending.get(
            memory.site_id, memory.settings_changed_at
        )
        now = self._clock()
        if outdated or not self._still_on(slot) or not self._scheduler.hosts.may_start(host, now):
            self._room.release()
            return
        del self._chosen[slot]
        self._scheduler.hosts.start(host, now)
        self._meter.note_start(cost)
        if self._pace is not None:
            self._pace.started()
        self._spawn(slot, self._poll(slot, host, memory), f"poll-{memory.site_id}")

    def _allowed(self, slot: int, host: int, memory: SiteContext) -> bool:
        """Whether robots.txt lets us poll the site now; where it forbids that, this is the site's finding.

        Where it takes long to tell, it is found out beside the loop, and the site is chosen anew.
        """
        try:
            allowed = self._scheduler.hosts.allows(host, memory.url)
            finding = None if allowed is not False else _denied(slot, memory, self._clock())
        except Exception as error:  # noqa: BLE001
            allowed, finding = False, self._faults.set_aside(slot, memory, error)
        if finding is not None:
            del self._chosen[slot]
            self._outage_filter.put(finding)
        elif allowed is None and self._claim(host):
            del self._chosen[slot]
            self._spawn(slot, self._look_up(slot, host, memory), f"rules-{memory.site_id}")
        return allowed is True

    def _claim(self, host: int) -> bool:
        """Takes the host, for what is done before a poll of it; False where another's redirect came first."""
        free = self._scheduler.hosts.may_start(host, self._clock())
        if free:
            self._scheduler.hosts.busy[host] = True
        return free

    def _start_robots(self, slot: int, memories: Mapping[int, SiteContext]) -> None:
        if not self._still_on(slot) or self._chosen[slot] not in memories:
            return
        host = int(self._scheduler.sites.host[slot])
        if not self._claim(host):
            return
        memory = memories[self._chosen.pop(slot)]
        self._asking.add(slot)
        self._spawn(slot, self._ask_robots(slot, host, memory), f"robots-{memory.site_id}")

    async def _poll(self, slot: int, host: int, memory: SiteContext) -> None:
        finding = None
        try:
            finding = await self._poller.poll(slot, memory)
        finally:
            self._free(host)
            self._room.release()
            if finding is None:
                self._unreserve({slot: memory.site_id})
        if self._pace is not None:
            self._let_rest(host, finding.outcome.duration)
        self._outage_filter.put(finding)

    def _let_rest(self, host: int, latency: float) -> None:
        """A host that answers more slowly than it is asked is left alone for as long as its answer took."""
        if latency > self._scheduler.hosts.interval_of(host):
            self._scheduler.hosts.rest(host, self._clock() + pause_s(0.0, latency))

    async def _ask_robots(self, slot: int, host: int, memory: SiteContext) -> None:
        outcome: Outcome | None = None
        aside: PollResult | None = None
        try:
            outcome = await self._robots.ask(host, memory.url, memory.access.proxy)
        except Exception as error:  # noqa: BLE001
            aside = self._faults.set_aside(slot, memory, error)
        finally:
            self._asking.discard(slot)
            self._free(host)
            if outcome is None and aside is None:
                self._unreserve({slot: memory.site_id})
        if aside is not None:
            self._outage_filter.put(aside)
        if outcome is None:
            return
        if self._scheduler.hosts.robots_at[host] == -np.inf:
            self._outage_filter.put(PollResult(slot, memory, outcome))
            return
        if not outcome.kind.link_suspect:
            self._outage_filter.answered()
        self._unreserve({slot: memory.site_id})

    async def _look_up(self, slot: int, host: int, memory: SiteContext) -> None:
        aside: PollResult | None = None
        try:
            await self._robots.allows(host, memory.url)
        except Exception as error:  # noqa: BLE001
            aside = self._faults.set_aside(slot, memory, error)
        finally:
            self._free(host)
            if aside is None:
                self._unreserve({slot: memory.site_id})
        if aside is not None:
            self._outage_filter.put(aside)

    def _spawn(self, slot: int, work: Coroutine[None, None, None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._tasks[slot] = task
        self._lag.begin()
        task.add_done_callback(partial(self._done, slot))

    def _done(self, slot: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(slot) is task:
            del self._tasks[slot]
        self._ended.set()
        if self._tasks:
            self._lag.begin()
        else:
            self._lag.end()
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not self.failed.done():
            self.failed.set_exception(fault)


def _denied(slot: int, memory: SiteContext, now: float) -> PollResult:
    outcome = Outcome(OutcomeKind.DENIED, started_at=now, duration=0.0, detail="robots.txt of the host denies it")
    return PollResult(slot, memory, outcome, asked=False)
