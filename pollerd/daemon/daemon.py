"""The live loop put together: built from the store, run until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import structlog
from numpy.typing import NDArray

import pollerd
from pollerd import allocation
from pollerd.allocation import Allocator
from pollerd.crawling.control.concurrency import Learned
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.daemon.allocation.replay import Replay, catch_up
from pollerd.daemon.control import Control
from pollerd.daemon.crawler.concurrency import ConcurrencyLimiter
from pollerd.daemon.crawler.crawler import FocusedCrawler
from pollerd.daemon.crawler.page_reader import PageReader
from pollerd.daemon.gauges import Gauges
from pollerd.daemon.polling.budget_gate import BudgetGate
from pollerd.daemon.polling.budget_meter import BudgetMeter
from pollerd.daemon.polling.dispatcher import Dispatcher
from pollerd.daemon.polling.outage_filter import OutageFilter
from pollerd.daemon.polling.poller import Poller
from pollerd.daemon.polling.robots_txt import RobotsKeeper
from pollerd.daemon.polling.write_pacer import WritePacer
from pollerd.daemon.process.loop_lag import LagWatch
from pollerd.daemon.process.workers import WorkerPool
from pollerd.daemon.results.calibration import CalibrationSums
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.results.noise import NoiseDetector
from pollerd.daemon.results.processor import ResultProcessor
from pollerd.daemon.state.believed_unchanged import AT_ONCE, keep_quiet_known, note_all_quiet
from pollerd.daemon.state.faults import Faults
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.settings import DaemonSettings
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.daemon.state.storage_health import RETRY_CAP_SECONDS, StorageHealth
from pollerd.errors import ConfigError, DatabaseUnavailableError, InvalidValueError
from pollerd.fetching import Fetcher
from pollerd.scheduling import SchedulingSettings
from pollerd.storage import AllocationRow, RunInfo, Store
from pollerd.telemetry import Instruments

_SITES_AT_A_TIME = 16_384
_FLUSH_EXPLORING_SECONDS = 0.05
_MAINTENANCE_LEAST_SECONDS = 30.0
_ALL_POLLS = 1_000_000
"""More than a site can have had since what is learned in common was stored."""


class Daemon:
    """Polls until stopped. Make one with `Daemon.create`, run it with `run`, end it with `stop`."""

    def __init__(
        self,
        store: Store,
        scheduler: SchedulerState,
        fetcher: Fetcher,
        settings: DaemonSettings,
        instruments: Instruments,
        rng: np.random.Generator,
        clock: Callable[[], float],
        last_start: float,
        explorer: FocusedCrawler | None = None,
        *,
        health: StorageHealth,
    ) -> None:
        self._explorer, self._health = explorer, health
        self._store, self._settings, self._clock = store, settings, clock
        memories = SiteCache(store, settings.memory_sites)
        meter = BudgetMeter()
        gate = BudgetGate(settings.budget, last_start=last_start)
        pacer = WritePacer(settings.budget, last_write=last_start)
        self._worker_pool = WorkerPool()
        faults = Faults(instruments, clock)
        calibration = CalibrationSums(instruments)
        twins = NoiseDetector(scheduler, store, self._worker_pool, faults, instruments)
        processor = ResultProcessor(
            scheduler, store, memories, self._worker_pool, twins, faults, instruments, calibration, rng, clock, explorer
        )
        if explorer is not None:  # what came of a page decides what to ask for next
            soon = min(settings.flush_seconds, _FLUSH_EXPLORING_SECONDS)
            settings = replace(settings, flush_seconds=soon, gather_seconds=soon)
        self._journal = Journal(processor, store, health, settings, instruments)
        self._outage_filter = OutageFilter(scheduler, self._journal, instruments)
        fetcher.on_sent = lambda host: scheduler.hosts.sent(host, clock())
        fetcher.before_repeat = lambda host: asyncio.sleep(scheduler.hosts.spacing_left_at(host, clock()))
        robots = RobotsKeeper(scheduler, fetcher, self._journal, self._worker_pool, instruments, rng, clock)
        reader = pace = None
        if explorer is not None:
            reader = PageReader(explorer.topic, explorer.sites, explorer.unread, self._worker_pool, faults)
            pace = ConcurrencyLimiter(Learned(rng))
        poller = Poller(
            scheduler, fetcher, robots, settings, self._worker_pool, faults, clock, reader, pace, pacer=pacer
        )
        self._dispatcher = Dispatcher(
            scheduler,
            gate,
            poller,
            robots,
            self._outage_filter,
            health,
            memories,
            meter,
            faults,
            settings,
            instruments,
            rng,
            clock,
            pace,
            pacer=pacer,
            lag=LagWatch(instruments),
        )
        self._scheduler, self._poller = scheduler, poller
        self.control = Control(
            store,
            scheduler,
            gate,
            self._dispatcher,
            robots,
            self._outage_filter,
            self._journal,
            health,
            memories,
            meter,
            calibration,
            settings,
            instruments,
            rng,
            clock,
            explorer,
            pacer=pacer,
        )
        processor.on_ended = self.control.drop
        self._gate = gate
        self._gauges = Gauges(
            scheduler,
            gate,
            meter,
            self.control.forecast,
            self.control.explainer,
            self.control.collection_outlook,
            instruments,
        )
        self._stop = asyncio.Event()
        self._log = structlog.get_logger("pollerd.daemon")

    @classmethod
    async def create(
        cls,
        store: Store,
        fetcher: Fetcher,
        settings: DaemonSettings,
        scheduling: SchedulingSettings,
        instruments: Instruments,
        rng: np.random.Generator,
        clock: Callable[[], float],
        topic: TopicSettings | None = None,
        seeds: Sequence[str] = (),
        *,
        health: StorageHealth | None = None,
    ) -> Daemon:
        """Reads what the store kept: sites, hosts, what was learned. After a crash every pace starts anew.

        topic: what to build a collection on; None: links are not followed. seeds: normalised URLs to begin with.
        health: told how the database takes it; None: one of the daemon's own.
        Raises ConfigError where the allocator cannot hold the stored sites, or cannot weigh sites by relevance, where
        the stored collection is on another topic, and where a new one has no seeds.
        """
        run = await store.start_run(pollerd.__version__, clock())
        allocator = allocation.create(settings.allocator, budget=settings.budget, objective=settings.objective, rng=rng)
        if topic is None:
            await store.recall_trials()
        else:
            _check_weights(settings.allocator, allocator)
        scheduler = SchedulerState(scheduling, settings.allocator, allocator)
        async for hosts in store.hosts():
            scheduler.load_hosts(hosts)
        scheduler.expect(await store.count_sites())
        try:
            async for rows, faults in store.schedule():
                scheduler.load(rows, faults)
        except InvalidValueError as error:
            raise ConfigError(f"allocator {settings.allocator} cannot hold the stored sites: {error}") from error
        scheduler.set_right(clock())
        scheduler.fit_budget()
        await _restore(scheduler, store, settings, rng)
        if scheduler.sites.size <= AT_ONCE:
            await note_all_quiet(scheduler)
        else:
            scheduler.believes_anew.set()
        # The last polls before a crash were not committed: then every host is left its whole interval.
        scheduler.hosts.begin_anew(clock(), all_hosts=not run.previous_clean)
        last_start = _last_start(run, clock())
        explorer = None if topic is None else FocusedCrawler(store, scheduler, topic, rng, clock)
        if explorer is not None:
            await explorer.begin(seeds)
        health = health or StorageHealth(instruments)
        return cls(store, scheduler, fetcher, settings, instruments, rng, clock, last_start, explorer, health=health)

    def stop(self) -> None:
        """Asks the daemon to end; may be called at any time, more than once."""
        self._stop.set()

    def clock_set(self, seconds: float) -> None:
        """The wall clock was set ahead by so much: what waits goes on waiting as long as it had to."""
        self._scheduler.clock_set(seconds)
        self._log.warning("clock_set", ahead_by=round(seconds, 3))

    def adopt(self, scheduling: SchedulingSettings, *, full_get_every: int) -> None:
        """Goes by other settings from now on; what is under way ends by the old ones."""
        self._poller.full_get_every = full_get_every
        if scheduling != self._scheduler.settings:
            self._dispatcher.chooser.settings = scheduling
            self._scheduler.adopt(scheduling)
        self._scheduler.look_again_at_blocked(np.arange(self._scheduler.sites.size))
        self._dispatcher.wake()

    async def run(self) -> None:
        """Polls until `stop`; then waits for polls under way, commits, and marks the run as ended cleanly.

        Any task that dies ends the daemon with its exception (in an ExceptionGroup).
        """
        try:
            clean = await self._run()
        finally:
            await self._dispatcher.call_off()
            self._worker_pool.close()
        if clean:
            await self._note_clean_end()

    async def _note_clean_end(self) -> None:
        """All is committed; where this last word does not get through, the next start takes it for a crash."""
        try:
            await self._store.end_run(self._clock())
        except DatabaseUnavailableError as error:
            self._log.warning("end_not_noted", reason=str(error))

    async def _run(self) -> bool:
        """Returns whether the stop was clean: all polls that started were committed."""
        async with asyncio.TaskGroup() as group:
            journal = group.create_task(self._journal.run(), name="journal")
            dispatch = group.create_task(self._dispatcher.run(), name="dispatcher")
            others = [
                group.create_task(self._watch_polls(), name="watch-polls"),
                group.create_task(self._maintain(), name="maintenance"),
                group.create_task(self._gauges.follow_forecast(), name="forecast"),
                group.create_task(self._gauges.follow_collection(), name="collection"),
                group.create_task(keep_quiet_known(self._scheduler, self._dispatcher.wake), name="quiet"),
                group.create_task(self._shadow(), name="shadows"),
                group.create_task(self._explore(), name="explorer"),
            ]
            await self._stop.wait()
            dispatch.cancel()
            drained = await self._dispatcher.drain()
            self._outage_filter.close()
            self._journal.close()
            committed = await self._last_commit(journal)
            for task in others:
                task.cancel()
        return drained and committed

    async def _last_commit(self, journal: asyncio.Task[None]) -> bool:
        patience = max(self._settings.drain_seconds, 1.0)
        done, _ = await asyncio.wait([journal], timeout=patience)
        if not done:
            reason = self._health.failure or f"the last commit did not end within {patience:g} s"
            self._log.error("stopped_uncommitted", reason=reason)
            journal.cancel()
        return bool(done)

    async def _watch_polls(self) -> None:
        await self._dispatcher.failed

    async def _explore(self) -> None:
        if self._explorer is not None:
            control, chooser = self.control, self._dispatcher.chooser
            budget, wake = (lambda: self._gate.budget), self._dispatcher.wake
            await self._explorer.run(control.turn, chooser, lambda: control.objective, budget, wake)

    async def _shadow(self) -> None:
        if self._settings.shadows:
            await self._begin_shadows()
        await self.control.shadows.run()

    async def _begin_shadows(self) -> None:
        while True:
            try:
                await self.control.set_allocation(shadows=self._settings.shadows)
            except DatabaseUnavailableError as error:
                self._log.warning("shadows_put_off", reason=str(error))
                await asyncio.sleep(RETRY_CAP_SECONDS)
            except InvalidValueError as error:
                self._log.error("shadows_refused", reason=str(error), polling="goes on")
                return
            else:
                return

    async def _maintain(self) -> None:
        """Prunes now and then, sooner where much is found; never without a pause."""
        most = self._settings.maintenance_seconds
        least = min(most, _MAINTENANCE_LEAST_SECONDS)
        while True:
            await asyncio.sleep(least)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(most - least):
                    await self._store.crowded()
            try:
                pruned = await self._store.prune(self._clock())
            except DatabaseUnavailableError as error:
                self._log.warning("maintenance_put_off", reason=str(error))
            else:
                self._log.info(
                    "pruned",
                    polls=pruned.polls,
                    changes=pruned.changes,
                    contents=pruned.contents,
                    bytes=pruned.content_bytes,
                )


def _check_weights(name: str, allocator: Allocator) -> None:
    try:
        allocator.admit(np.empty(0, np.int64), np.array([0.25, 0.5]), np.ones(2))
    except InvalidValueError as error:
        raise ConfigError(f"allocator {name} cannot weigh sites by their relevance to a topic: {error}") from error


async def _restore(scheduler: SchedulerState, store: Store, settings: DaemonSettings, rng: np.random.Generator) -> None:
    """Puts back what was learned; where it is another allocator's or another version's, the stored polls teach anew.

    What is in force now is kept: it holds at the next start, too, unless something else is said then.
    """
    kept = await store.load_allocation()
    log = structlog.get_logger("pollerd.daemon")
    row = partial(AllocationRow, settings.allocator, settings.objective, settings.budget)
    if kept is not None and kept.allocator == settings.allocator and await _put_back(scheduler, store, kept):
        # A run that was killed left polls that came after what is learned in common was stored.
        after = kept.learned_through
        newer = store.recent_polls(_ALL_POLLS, after=await store.last_poll_id() if after is None else after)
        polls = await catch_up(newer, scheduler.sites, scheduler.allocator)
        if polls:
            log.info("caught_up_on_polls", polls=polls, allocator=settings.allocator)
        await store.save_allocation(row(scheduler.allocator.shared_state()))
        return
    # Damage may have shown after some of it was put back.
    budget = scheduler.allocator.budget
    scheduler.begin_anew(allocation.create(settings.allocator, budget=budget, objective=settings.objective, rng=rng))
    replay = Replay(scheduler.sites, scheduler.allocator)
    await replay.teach(store.recent_polls())
    if replay.taken:
        log.info("learned_from_stored_polls", polls=replay.taken, allocator=settings.allocator)
    slots = np.flatnonzero(replay.site_id >= 0)
    await store.replace_learned(row(scheduler.allocator.shared_state()), _states(scheduler, slots))


def _states(scheduler: SchedulerState, slots: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """(site id, what was learned of it) for each slot; worked out as they are asked for."""
    for start in range(0, len(slots), _SITES_AT_A_TIME):
        some = slots[start : start + _SITES_AT_A_TIME]
        states = scheduler.allocator.site_state(some)
        for site_id, state in zip(scheduler.sites.site_id[some].tolist(), states, strict=True):
            yield site_id, state.tobytes()


async def _put_back(scheduler: SchedulerState, store: Store, kept: AllocationRow) -> bool:
    if kept.shared_state is None:
        return False
    try:
        # What was learned in common holds for sites to come, too, where there is no other yet.
        none = np.empty(0, np.int64)
        scheduler.allocator.restore(none, scheduler.allocator.site_state(none), kept.shared_state)
        async for site_ids, states in store.learned(kept.allocator):
            slots = scheduler.sites.slots_of(site_ids)
            known = slots >= 0
            scheduler.allocator.restore(slots[known], states[known], kept.shared_state)
    except InvalidValueError as error:
        log = structlog.get_logger("pollerd.daemon")
        log.warning("learned_state_unusable", reason=str(error), instead="learning from the stored polls")
        return False
    return True


def _last_start(run: RunInfo, now: float) -> float:
    """The last start of the run before (monotonic s), so that the budget's window holds across a restart.

    At a clean stop nothing was under way any more. The last poll that was committed does not tell: later ones may have
    been dropped in an outage of ours, or deleted with their sites. After any other end it is now.
    """
    if not run.previous_clean:
        return time.monotonic()
    if run.previous_stopped_at is None:
        return -math.inf
    return time.monotonic() - max(0.0, now - run.previous_stopped_at)
