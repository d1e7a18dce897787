"""The poll: choose, reserve site and host, wait for the gate, request, detect, release.

`Poller` has these in their order; `InFlight` keeps the tasks of polls under way. What a poll found goes by the outage
filter to the journal (`daemon.commit`), which frees the site when it is committed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from msgspec.structs import replace

from pollerd.daemon.budget import Budget
from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.faults import reason
from pollerd.daemon.outage_filter import OutageFilter
from pollerd.daemon.pages import PageClient, detect_selected, needs_whole_page
from pollerd.daemon.process import LagWatch
from pollerd.daemon.redirects import RedirectFollower, RedirectPolicyMaker
from pollerd.daemon.robots import RobotsKeeper
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.stages import Answer, Found, SiteCache
from pollerd.daemon.workers import Effort
from pollerd.detection.detect import detect, heavy
from pollerd.errors import DatabaseUnavailableError
from pollerd.fetching.request import Request, own_headers
from pollerd.model import READER, Detection, Outcome, OutcomeKind, Validators
from pollerd.scheduling.choice import Chooser, next_due
from pollerd.scheduling.outage import PROBE_SECONDS
from pollerd.site_settings import NO_ACCESS
from pollerd.storage.values import SiteContext
from pollerd.telemetry import Instruments
from pollerd.texts import _
from pollerd.urls import host_of

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
        """Earliest time of the next choice after nothing was started, whatever wakes the poller."""
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
        self.lag = LagWatch(instruments)
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
        """Whether the poller waits because nothing could be started: freeing a site or host wakes it."""
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Receives the exception of a failed task: an internal fault that ends the daemon."""
        instruments.inflight.set_function(lambda: len(self._tasks))

    def __len__(self) -> int:
        """Returns the number of polls and robots.txt requests in flight."""
        return len(self._tasks)

    @property
    def loop_lag(self) -> float:
        """How late the event loop ran a timer, s, at worst in the last 15."""
        return self.lag.worst()

    def reserve(self, slots: list[int]) -> None:
        """Marks chosen sites so that they are not chosen again."""
        sites = self._scheduler.sites
        self.chosen = dict(zip(slots, sites.site_id[slots].tolist(), strict=True))
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

    def abandon(self, slot: int) -> None:
        """Cancels the work for the slot after its site was removed."""
        self.chosen.pop(slot, None)
        task = self._tasks.get(slot)
        if task is not None:
            # Not at once: a task cancelled before its first step would never free its permit and its host.
            self._loop.call_soon(task.cancel)

    def spawn(self, slot: int, work: Coroutine[None, None, None], name: str) -> None:
        """Runs the work for the slot as a task of this name."""
        task = self._loop.create_task(work, name=name)
        self._tasks[slot] = task
        self.lag.begin()
        task.add_done_callback(partial(self._done, slot))

    def _done(self, slot: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(slot) is task:
            del self._tasks[slot]
        self.ended.set()
        if self._tasks:
            self.lag.begin()
        else:
            self.lag.end()
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


# Choosing, starting and polling.

Contexts = Mapping[int, SiteContext]
"""By site id."""
_CLOCK_SET_SECONDS = 1.0
"""Smallest gap between recorded and computed start that indicates that the clock was set during the poll."""
_LONGEST_SLEEP_SECONDS = 10.0
"""Longest sleep: the loop's clock stops while the machine is suspended, so sites may be due before it wakes."""
_IDLE_CAP_SECONDS = 1.0
"""Longest wait between choices while a site seems due but cannot be chosen yet."""
_STORAGE_RETRY_SECONDS = 0.5
_ROOM_SECONDS = 1.0
_LIMIT_RETRY_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class PollParts:
    """The parts that a poll passes."""

    chooser: Chooser
    budget: Budget
    in_flight: InFlight
    site_cache: SiteCache
    robots: RobotsKeeper
    client: PageClient
    redirects: RedirectPolicyMaker
    crawl: PageHook | None
    """None: no topic is set."""
    outage_filter: OutageFilter


class Poller:
    """Starts polls under the budget, in the chooser's order, and takes each to what it found."""

    def __init__(self, *, scheduler: SchedulerState, parts: PollParts, runtime: Runtime) -> None:
        """Must be called inside the running event loop."""
        self._scheduler, self._chooser, self._budget = scheduler, parts.chooser, parts.budget
        self._in_flight, self._site_cache, self._robots = parts.in_flight, parts.site_cache, parts.robots
        self._client, self._redirects, self._crawl = parts.client, parts.redirects, parts.crawl
        self._outage_filter = parts.outage_filter
        self._settings, self._health, self._faults = runtime.settings, runtime.health, runtime.faults
        self._workers = runtime.workers
        self._tick_metric, self._rng, self._clock = runtime.instruments.tick, runtime.rng, runtime.clock
        self._cadence = Cadence(runtime.settings.tick_seconds)
        self._next_turn_due = time.monotonic()
        self.full_get_every = runtime.settings.full_get_every
        """Every n-th poll of a site is unconditional; may be changed."""

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
            if self._outage_filter.holds_back:
                self._outage_filter.review()
            # Not while the database does not accept commits, or there is no budget.
            if not await self._wait_for(self._health.takes_commits, _STORAGE_RETRY_SECONDS):
                continue
            if not await self._wait_for(self._budget.granted, _STORAGE_RETRY_SECONDS):
                continue
            if self._scheduler.budget_fit.has_grown():
                await self._scheduler.budget_fit.fit_in_steps()
            offline = not self._outage_filter.online.is_set()
            if await (self._probe() if offline else self._round()):
                idle = self._settings.tick_seconds
                await self._rest(self._cadence.choose_again_at - time.monotonic())
            else:
                with self._budget.meter.idle(self._cadence.nothing_due):
                    await self._idle(min(max(idle, self._due_in()), _LONGEST_SLEEP_SECONDS))
                idle = min(idle * 1.5, _IDLE_CAP_SECONDS)

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
        while self._crawl is not None and not self._crawl.may_start():
            await self._rest(_LIMIT_RETRY_SECONDS)
        room, ended = self._in_flight.room, self._in_flight.ended
        while room.locked():
            await self._wait_for(ended, _ROOM_SECONDS)
            ended.clear()
        await room.acquire()

    def _due_in(self) -> float:
        """Returns the seconds until a site may be polled or a review is due, unless an event comes first."""
        wait = self._cadence.due_in
        if self._outage_filter.holds_back:
            wait = min(wait, self._outage_filter.review_in)
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
        self._in_flight.lag.mark()
        now = self._clock()
        scheduler.sites.proofs.earn(now, rate)
        choice = self._chooser.choose(
            scheduler.allocator,
            now,
            self._cadence.number(rate, ahead=self._crawl is None or self._crawl.chooses_ahead),
            scheduler.uniform_period(),
            self._budget.most_robots_pending - len(self._in_flight.asking),
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

    # Starting what was chosen.

    async def _start(self, polls: Sequence[int], robots: Sequence[int]) -> bool:
        """Starts the polls and robots.txt requests of these slots; returns whether at least one was started."""
        chosen = [*polls, *robots]
        if not chosen:
            return False
        self._in_flight.reserve(chosen)
        started = True
        try:
            contexts = await self._site_cache.get(list(self._in_flight.chosen.values()))
            if self._health.failing:
                self._health.works("reads")
            for slot in chosen:
                context = contexts.get(self._in_flight.chosen.get(slot, -1))
                if context is None:
                    continue
                fault = context.fault or self._scheduler.unusable.get(context.site_id)
                if fault:  # its row in the database is damaged
                    del self._in_flight.chosen[slot]
                    self._outage_filter.put(self._faults.unusable(slot, context, fault))
            for slot in robots:
                self._start_robots(slot, contexts)
            for slot in polls:
                await self._start_poll(slot, contexts)
                if (
                    self._scheduler.due.is_set()
                    or not self._outage_filter.online.is_set()
                    or not self._health.takes_commits.is_set()
                ):
                    break
        except DatabaseUnavailableError as error:
            self._health.failed("reads", str(error))
            await self._rest(_STORAGE_RETRY_SECONDS)
            started = False
        finally:
            left = self._in_flight.release_chosen()
        return started and left < len(chosen)

    async def _start_poll(self, slot: int, contexts: Contexts) -> None:
        """Starts one poll once robots.txt, permit and budget gate allow it, unless the site changed meanwhile."""
        scheduler, in_flight = self._scheduler, self._in_flight
        sites, hosts = scheduler.sites, scheduler.hosts
        context = contexts.get(in_flight.chosen.get(slot, -1))
        if context is None or sites.paused[slot]:
            return
        host, cost = int(sites.host[slot]), float(sites.cost[slot])
        if not self._allowed(slot, host, context):
            return
        await self._acquire_permit()
        await self._budget.gate.acquire(cost)
        now = self._clock()
        if (
            (scheduler.settings_pending and scheduler.settings_outdated(context))
            or slot not in in_flight.chosen
            or sites.paused[slot]
            or not hosts.may_start(host, now)
            or not scheduler.is_open(slot, now)
        ):
            in_flight.room.release()
            return
        self._budget.meter.note_start(cost)
        if sites.proofs:
            sites.proofs.started(slot, cost)
        del in_flight.chosen[slot]
        hosts.start(host, now)
        if hosts.lines.waiting:
            hosts.lines.end_polls_turn(host)
        if self._crawl is not None:
            self._crawl.started()
        in_flight.spawn(slot, self._run_poll(slot, host, context), f"poll-{context.site_id}")

    def _allowed(self, slot: int, host: int, context: SiteContext) -> bool:
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
            del self._in_flight.chosen[slot]
            self._outage_filter.put(result)
        elif allowed is None and self._claim(host):
            del self._in_flight.chosen[slot]
            self._in_flight.spawn(slot, self._look_up_rules(slot, host, context), f"rules-{context.site_id}")
        return allowed is True

    def _start_robots(self, slot: int, contexts: Contexts) -> None:
        """Requests the robots.txt of the slot's host, unless the host is busy."""
        context, sites = contexts.get(self._in_flight.chosen.get(slot, -1)), self._scheduler.sites
        host = int(sites.host[slot])
        if context is None or sites.paused[slot] or not self._claim(host):
            return
        del self._in_flight.chosen[slot]
        self._in_flight.asking.add(slot)
        self._in_flight.spawn(slot, self._ask_robots(slot, host, context), f"robots-{context.site_id}")

    def _claim(self, host: int) -> bool:
        """Marks the host as busy before a poll of it; returns False if a redirected request holds it."""
        free = self._scheduler.hosts.may_start(host, self._clock())
        if free:
            self._scheduler.hosts.busy[host] = True
        return free

    def _free(self, host: int) -> None:
        """Frees the host after a request; wakes the poller if it waits for a host."""
        self._scheduler.hosts.finish(host)
        if self._in_flight.idling and self._scheduler.hosts.may_start(host, self._clock()):
            self._scheduler.due.set()

    # The tasks of chosen sites: a poll, a robots.txt request, or the slow evaluation of known rules.

    async def _run_poll(self, slot: int, host: int, context: SiteContext) -> None:
        result = None
        try:
            result = await self.poll(slot, context)
        finally:
            self._free(host)
            self._in_flight.room.release()
            if result is None:
                self._in_flight.release({slot: context.site_id})
        if self._crawl is not None:
            pause = self._crawl.pause_after(result.outcome.duration, self._scheduler.hosts.interval_of(host))
            if pause > 0:
                self._scheduler.hosts.rest(host, self._clock() + pause)
        self._outage_filter.put(result)

    async def poll(self, slot: int, context: SiteContext) -> Found:
        """Requests the page of the site in `slot` and detects what of it changed.

        The caller has reserved the site and its host and has passed the budget gate. Failures of the site, and internal
        faults that it triggers, are in the result.
        """
        try:
            answer = await self._request(slot, context)
            screenshot = answer.outcome.screenshot
            if screenshot is None:
                return await self._found(answer)
            # Detection needs none of it, and may run in another process.
            result = await self._found(replace(answer, outcome=replace(answer.outcome, screenshot=None)))
            return replace(result, answer=answer) if _finds_content(result.detection) else result
        except Exception as error:  # noqa: BLE001
            # Sites are untrusted: what one triggers is reported and sets it aside, and the other polls go on.
            return self._faults.set_aside(slot, context, error)

    async def _request(self, slot: int, context: SiteContext) -> Answer:
        """Sends the request when the budget allows, and follows redirects if robots.txt and politeness allow."""
        scheduler, crawl, request = self._scheduler, self._crawl, self._request_for(slot, context)
        sites = scheduler.sites
        host = int(sites.host[slot])
        redirects: RedirectFollower | None = None

        async def follow(url: str) -> bool:
            nonlocal redirects
            if redirects is None:
                redirects = self._redirects.policy(host, context, context.access.proxy)
            return await redirects.may_follow(url)

        may_follow = follow if crawl is None else crawl.following(context.site_id, follow)
        began, send = time.perf_counter(), partial(self._budget.pacer.send, float(sites.cost[slot]))
        try:
            outcome = await self._client.get(context, request, may_follow, send)
            started_at = self._clock() - outcome.duration
            if started_at - outcome.started_at > _CLOCK_SET_SECONDS:  # the clock was set during the poll
                outcome = replace(outcome, started_at=started_at)
            if redirects is not None:
                redirects.answered(request.url, outcome)
            elif outcome.status is not None:
                scheduler.hosts.answered(host, outcome, self._clock(), self._rng)
        finally:
            if redirects is not None:
                redirects.finish()
            if crawl is not None:
                crawl.responded(time.perf_counter() - began)
        if redirects is not None and redirects.put_off is not None and outcome.kind is OutcomeKind.DENIED:
            # The redirect's host cannot be requested now: a temporary refusal.
            detail = _("redirect to {url}: its host cannot be asked now", url=outcome.redirects[-1].url)
            outcome = replace(outcome, kind=OutcomeKind.THROTTLED, retry_after=redirects.put_off, detail=detail)
        effort = None if outcome.body is None else Effort(host_of(context.url), len(outcome.body))
        return Answer(slot, context, outcome, effort=effort)

    def _request_for(self, slot: int, context: SiteContext) -> Request:
        """Returns a conditional request; a full one every n-th poll, as some servers lie, and after other settings."""
        scheduler, sites, access = self._scheduler, self._scheduler.sites, context.access
        changed_at = context.settings_changed_at
        full = (
            context.polls_since_full >= self.full_get_every - 1
            or context.baseline.fingerprint is None
            or (context.baseline.reader != READER and not _failed(context))  # some servers know 304 only
            or (self._crawl is not None and self._crawl.wants_whole(context.site_id))
            or (context.selections != "" and needs_whole_page(context))
            or (bool(sites.proofs) and slot in sites.proofs)
            or context.site_id in scheduler.unread_sources
            or (
                changed_at is not None
                and (changed_at > float(sites.last_seen[slot]) or context.site_id in scheduler.settings_pending)
            )
        )
        validators = Validators() if full else context.validators
        url = context.spelling or context.url
        url = url if context.render else url.partition("#")[0]  # a tag may have said so before
        if access is NO_ACCESS:
            return Request(url, validators)
        if access.body is None:
            return Request(url, validators, own_headers(access), access.proxy)
        # A POST has no representation of its own that validators could name (RFC 9110, section 13.1).
        return Request(url, Validators(), own_headers(access), access.proxy, access.body.encode())

    async def _found(self, answer: Answer) -> Found:
        """Compares the answer with the site's baseline, if there is one to compare."""
        context, outcome, detection, reading = answer.context, answer.outcome, None, None
        began = time.perf_counter()
        try:
            if outcome.kind in (OutcomeKind.BODY, OutcomeKind.NOT_MODIFIED):
                last_seen = float(self._scheduler.sites.last_seen[answer.slot])
                elapsed = max(outcome.started_at - last_seen, 0.0) if last_seen > 0 else None
                try:
                    if context.selections:
                        effort = answer.effort or Effort()
                        detection = await detect_selected(self._workers, effort, context, outcome, elapsed)
                    elif heavy(outcome, context.baseline):
                        work = (detect, outcome, context.baseline, elapsed)
                        detection = await self._workers.do(*work, effort=answer.effort)
                    else:
                        detection = detect(outcome, context.baseline, elapsed)
                except Exception as error:  # noqa: BLE001
                    # Bodies are untrusted: one that breaks a parser affects only its own site.
                    self._faults.report(context, error)
                    detail = _("detection failed: {reason}", reason=reason(context, error))
                    detection = Detection(OutcomeKind.UNDECODABLE, context.baseline, detail=detail)
                if self._scheduler.settings_pending:
                    self._scheduler.polled_under(context)
            if self._crawl is not None:
                reading = await self._crawl.read(context, outcome, detection)
        finally:
            if self._crawl is not None:
                self._crawl.processed(time.perf_counter() - began)
        return Found(answer, detection, reading)

    async def _ask_robots(self, slot: int, host: int, context: SiteContext) -> None:
        outcome: Outcome | None = None
        aside: Found | None = None
        try:
            outcome = await self._robots.ask(host, context.url, context.access.proxy)
        except Exception as error:  # noqa: BLE001
            # As in `_allowed`.
            aside = self._faults.set_aside(slot, context, error)
        finally:
            self._in_flight.asking.discard(slot)
            self._free(host)
            if outcome is None and aside is None:
                self._in_flight.release({slot: context.site_id})
        if aside is not None:
            self._outage_filter.put(aside)
        if outcome is None:
            return
        if self._scheduler.hosts.robots_at[host] == -np.inf:  # still unknown: the failure is the site's result
            self._outage_filter.put(Found(Answer(slot, context, outcome)))
            return
        if not outcome.kind.link_suspect:
            self._outage_filter.answered()
        self._in_flight.release({slot: context.site_id})

    async def _look_up_rules(self, slot: int, host: int, context: SiteContext) -> None:
        aside: Found | None = None
        try:
            await self._robots.allows(host, context.url)
        except Exception as error:  # noqa: BLE001
            # As in `_allowed`.
            aside = self._faults.set_aside(slot, context, error)
        finally:
            self._free(host)
            if aside is None:
                self._in_flight.release({slot: context.site_id})
        if aside is not None:
            self._outage_filter.put(aside)


def _denied(slot: int, context: SiteContext, now: float) -> Found:
    outcome = Outcome(OutcomeKind.DENIED, started_at=now, duration=0.0, detail=_("robots.txt of the host denies it"))
    return Found(Answer(slot, context, outcome, asked=False))


def _failed(context: SiteContext) -> bool:
    return context.last_outcome is not None and context.last_outcome.failed


def _finds_content(detection: Detection | None) -> bool:
    if detection is None:
        return False
    return detection.content is not None or any(part.content is not None for part in detection.selections)
