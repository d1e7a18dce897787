"""One poll, from a site to a finding: ask, follow, detect."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from pollerd.daemon.crawler.concurrency import ConcurrencyLimiter
from pollerd.daemon.crawler.page_reader import PageReader
from pollerd.daemon.polling.redirects import RedirectPolicy
from pollerd.daemon.polling.robots_txt import RobotsKeeper
from pollerd.daemon.polling.write_pacer import WritePacer
from pollerd.daemon.process.workers import WorkerPool
from pollerd.daemon.state.faults import Faults, reason
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.settings import DaemonSettings
from pollerd.detection import detect, heavy
from pollerd.fetching import Fetcher, Request, own_headers
from pollerd.model import NO_ACCESS, Detection, Outcome, OutcomeKind, Validators
from pollerd.storage import SiteContext

_CLOCK_SET_SECONDS = 1.0
"""A poll that started so much earlier than its duration says was overtaken by the clock."""


class Poller:
    """Does single polls. The caller has reserved the site and its host and has passed the budget gate."""

    def __init__(
        self,
        scheduler: SchedulerState,
        fetcher: Fetcher,
        robots: RobotsKeeper,
        settings: DaemonSettings,
        worker_pool: WorkerPool,
        faults: Faults,
        clock: Callable[[], float],
        reader: PageReader | None = None,
        pace: ConcurrencyLimiter | None = None,
        *,
        pacer: WritePacer,
    ) -> None:
        """`pacer`: decides when a request is written. `reader`, `pace`: the topic robot's; None: there is none."""
        self._reader, self._pace, self._pacer = reader, pace, pacer
        self._scheduler, self._fetcher, self._robots = scheduler, fetcher, robots
        self._worker_pool, self._faults, self._clock = worker_pool, faults, clock
        self.full_get_every = settings.full_get_every
        self._began_at = clock()

    async def poll(self, slot: int, memory: SiteContext) -> PollResult:
        """Polls the site in `slot`. Faults of the site, and ours that it brings out, come back in the finding."""
        try:
            return await self._poll(slot, memory)
        except Exception as error:  # noqa: BLE001
            return self._faults.set_aside(slot, memory, error)

    async def _poll(self, slot: int, memory: SiteContext) -> PollResult:
        own = int(self._scheduler.sites.host[slot])
        hops = RedirectPolicy(self._scheduler, self._robots, own, self._began_at, self._clock, memory.access.proxy)
        may_follow = (
            hops.may_follow if self._reader is None else self._reader.following(memory.site_id, hops.may_follow)
        )
        send = partial(self._pacer.send, float(self._scheduler.sites.cost[slot]))
        began = time.perf_counter()
        try:
            outcome = await self._fetcher.fetch(self._request(slot, memory), may_follow, send)
        finally:
            hops.finish()
            if self._pace is not None:
                self._pace.responded(time.perf_counter() - began)
        began = time.perf_counter()
        try:
            return await self._understood(slot, memory, outcome, hops.put_off)
        finally:
            if self._pace is not None:
                self._pace.processed(time.perf_counter() - began)

    async def _understood(self, slot: int, memory: SiteContext, outcome: Outcome, put_off: float | None) -> PollResult:
        outcome = _dated(outcome, self._clock())
        if put_off is not None and outcome.kind is OutcomeKind.DENIED:
            outcome = _put_off(outcome, put_off)
        detection = await self._detect(slot, memory, outcome)
        reading = None if self._reader is None else await self._reader.read(memory, outcome, detection)
        if detection is not None and self._scheduler.settings_pending.get(memory.site_id) == memory.settings_changed_at:
            self._scheduler.settings_pending.pop(memory.site_id, None)
        return PollResult(slot, memory, outcome, detection, reading=reading)

    def _request(self, slot: int, memory: SiteContext) -> Request:
        """Conditional, but for every n-th poll and the first after a change of settings: some servers lie."""
        last_seen = float(self._scheduler.sites.last_seen[slot])
        changed_at = memory.settings_changed_at
        full = (
            memory.polls_since_full >= self.full_get_every - 1
            or memory.baseline.fingerprint is None
            or (self._reader is not None and self._reader.wants_whole(memory.site_id))
            or (
                changed_at is not None
                and (changed_at > last_seen or memory.site_id in self._scheduler.settings_pending)
            )
        )
        validators = Validators() if full else memory.validators
        if memory.access is NO_ACCESS:
            return Request(memory.url, validators)
        return Request(memory.url, validators, own_headers(memory.access), memory.access.proxy)

    async def _detect(self, slot: int, memory: SiteContext, outcome: Outcome) -> Detection | None:
        if outcome.kind not in (OutcomeKind.BODY, OutcomeKind.NOT_MODIFIED):
            return None
        last_seen = float(self._scheduler.sites.last_seen[slot])
        elapsed = max(outcome.started_at - last_seen, 0.0) if last_seen > 0 else None
        try:
            if heavy(outcome, memory.baseline):
                return await self._worker_pool.do(detect, outcome, memory.baseline, elapsed)
            return detect(outcome, memory.baseline, elapsed)
        except Exception as error:  # noqa: BLE001
            # Bodies come from strangers: one that breaks a parser is set aside with its site, the rest go on.
            self._faults.report(memory, error)
            detail = f"detection failed: {reason(memory, error)}"
            return Detection(OutcomeKind.UNDECODABLE, memory.baseline, detail=detail)


def _dated(outcome: Outcome, now: float) -> Outcome:
    """The outcome by the clock as it is now, which may have been set while the poll was under way."""
    started_at = now - outcome.duration
    return replace(outcome, started_at=started_at) if started_at - outcome.started_at > _CLOCK_SET_SECONDS else outcome


def _put_off(outcome: Outcome, seconds: float) -> Outcome:
    """No refusal for good: the host that we were sent to is to be left alone for now."""
    detail = f"redirect to {outcome.redirects[-1].url}: its host cannot be asked now"
    return replace(outcome, kind=OutcomeKind.THROTTLED, retry_after=seconds, detail=detail)
