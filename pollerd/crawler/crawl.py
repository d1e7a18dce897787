"""The focused crawler in the running daemon: pages put on trial, and the hook through which the live loop calls it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.allocation.index import amplitude_and_rate
from pollerd.allocation.registered import TIMELY
from pollerd.crawler.concurrency import ConcurrencyLimiter, pause_s
from pollerd.crawler.judging import PageJudge, PageReader
from pollerd.crawler.state import CrawlState, frontier_rows
from pollerd.crawler.topics import TopicSettings
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import PageState
from pollerd.scheduling.choice import Chooser
from pollerd.site_settings import SiteSpec
from pollerd.storage.crawler.frontier import FIRST_VALUE, Frontier
from pollerd.storage.page_values import PageRow, Trial

# Trials: pages of the frontier become sites whose first answers decide whether they are kept.
#
# A page on trial is a site like any other, so politeness, budget, guard and crash safety apply to it without a second
# code path. Few are on trial at a time, the best of the frontier, one or a few per host: the chooser weighs them
# against refreshing the collection.

ON_A_SCALE = frozenset({"whittle"})
"""Allocators whose urgency is the value of a poll, so that a page on trial is comparable."""
_EVERY_SECONDS = 0.25
_SMOOTHING = 0.2
_TRIALS_MOST = 2_000
_SPACING_SECONDS, _PER_HOST_MOST = 0.5, 8
"""One page per host is on trial at a time; up to eight if the host's interval is shorter."""
_EXPLORATION = 0.01
_RATES_OF = 2_048
_RATE_UNKNOWN_UNIT = 86_400.0
_HORIZON_LEAST_SECONDS = 60.0
_VALUED_AT_ONCE = 500
"""Pages valued before yielding to the event loop."""


class TrialStarter:
    """Keeps as many pages on trial as the budget can request, the best of the frontier, and their values current."""

    def __init__(
        self,
        *,
        state: CrawlState,
        frontier: Frontier,
        scheduler: SchedulerState,
        chooser: Chooser,
        topic: TopicSettings,
        rng: np.random.Generator,
        clock: Callable[[], float],
    ) -> None:
        self._state, self._frontier, self._scheduler, self._chooser = state, frontier, scheduler, chooser
        self._topic, self._rng, self._clock = topic, rng, clock
        self._swept = 0
        """Id of the last frontier page that was valued in turn."""
        self._cycle = _EVERY_SECONDS
        """Mean seconds between two fillings."""
        self._log = structlog.get_logger("pollerd.crawler")

    async def run(self) -> None:
        """Puts pages on trial until cancelled."""
        reported = False
        while True:
            began = time.monotonic()
            self._chooser.trials.value_unit = self.value_unit(self._scheduler.objective)
            try:
                came = await _to_its_end(self._fill_up(self._scheduler.budget))
                reported = False
            except DatabaseUnavailableError as error:
                if not reported:
                    self._log.warning("frontier_unavailable", reason=str(error))
                reported, came = True, 0
            if came:
                self._scheduler.due.set()
            await self._pause()
            self._cycle += _SMOOTHING * (time.monotonic() - began - self._cycle)

    async def _fill_up(self, budget: float) -> int:
        """Revalues pages if something was learned, then puts pages on trial; returns the number of new sites."""
        if self._state.updated:
            self._state.updated = False
            try:
                await self._value_all()
            except DatabaseUnavailableError:
                self._state.updated = True
                raise
        return await self._promote(budget)

    async def _value_all(self) -> None:
        """Revalues the pages affected by commits, the pages on trial, and part of the frontier."""
        await self._value_stale()
        await self._revalue()
        rows, swept = await self._frontier.sweep(self._swept)
        await self._write_values(rows)
        self._swept = swept

    async def _value_stale(self) -> None:
        """Revalues the pages affected by commits since the last call."""
        while self._state.stale:
            some = sorted(self._state.stale)[:_VALUED_AT_ONCE]
            await self._write_values(await self._frontier.link_context.around(some))
            self._state.stale.difference_update(some)

    async def _write_values(self, rows: Sequence[PageRow]) -> None:
        """Stores the changed values of frontier pages."""
        for start in range(0, len(rows), _VALUED_AT_ONCE):
            some = [
                row
                for row in rows[start : start + _VALUED_AT_ONCE]
                if row.value is not None and row.value < FIRST_VALUE  # FIRST_VALUE: requested first in any case
            ]
            if not some:
                continue
            values = zip(some, self._state.values(frontier_rows(some)).tolist(), strict=True)
            await self._frontier.write_values([(row, value) for row, value in values if value != row.value])

    async def _revalue(self) -> None:
        """Revalues pages on trial: findings about their siblings have changed their features."""
        site_ids = self._scheduler.sites.site_id[self._on_trial()].tolist()
        tried = [(site_id, page) for site_id in site_ids if (page := self._state.pages.get(site_id)) is not None]
        waiting = {page.status.page_id: site_id for site_id, page in tried if page.value < FIRST_VALUE}
        for row in await self._frontier.link_context.around(list(waiting)):
            around, site_id = frontier_rows([row]), waiting[row.id]
            page, slot = self._state.pages.get(site_id), self._scheduler.sites.slot_of(site_id)
            if page is not None and slot is not None and page.status.on_trial:
                page.state, page.value = around, float(self._state.values(around)[0])
                self._scheduler.sites.put("value", slot, page.value)

    async def _promote(self, budget: float) -> int:
        """Puts frontier pages on trial up to the limit; returns the number of new sites."""
        room = self._room(budget)
        if room <= 0:
            return 0
        async with self._scheduler.changing_sites:
            trials = await self._chosen(room)
            new = [trial for trial in trials if trial.state is PageState.ASKED]
            self._scheduler.add(
                [trial.site_id for trial in new],
                [(trial.host_id, trial.host) for trial in new],
                [SiteSpec(trial.url, weight=self._topic.relevance_min) for trial in new],
            )
            for trial in trials:
                self._state.hold(trial)
            value = [self._state.value_of(trial) for trial in new]
            self._scheduler.sites.put("value", self._slots([trial.site_id for trial in new]), value)
        return len(new)

    async def _chosen(self, room: int) -> list[Trial]:
        spacing = self._scheduler.settings.host_interval_seconds
        per_host = min(1 + math.ceil(_SPACING_SECONDS / spacing), _PER_HOST_MOST) if spacing else _PER_HOST_MOST
        limits = (per_host, self._topic.pages_per_host, self._topic.relevance_min, self._clock())
        chosen: list[Trial] = []
        if self._rng.random() < _EXPLORATION * room:
            chosen += await self._frontier.promote(1, *limits, at=float(self._rng.random()))
        while len(chosen) < room and (more := await self._frontier.promote(room - len(chosen), *limits)):
            chosen += more
        return chosen

    def _room(self, budget: float) -> int:
        """Returns how many more sites to put on trial: the requests the budget allows until the next filling, and one
        more.

        Not more, since better pages may be found meanwhile. Sites in flight or not ready yet do not count; each host
        counts for at most the requests its interval allows.
        """
        hosts, sites, slots = self._scheduler.hosts, self._scheduler.sites, self._on_trial()
        ready = np.maximum(hosts.ready_at()[sites.host[slots]], sites.not_before[slots])
        waiting = slots[~sites.in_flight[slots] & (ready <= self._clock() + self._cycle)]
        host, waiting_there = np.unique(sites.host[waiting], return_counts=True)
        with np.errstate(divide="ignore"):
            can_be_asked = np.minimum(waiting_there, 1.0 + self._cycle // hosts.interval()[host]).sum()
        return min(math.ceil(budget * self._cycle) + 1 - int(can_be_asked), _TRIALS_MOST - len(slots))

    def _on_trial(self) -> NDArray[np.int64]:
        """Returns the slots of the sites on trial."""
        on_trial = self._scheduler.sites.on_trial()
        return np.empty(0, np.int64) if on_trial is None else np.flatnonzero(on_trial)

    def _slots(self, site_ids: Sequence[int]) -> NDArray[np.int64]:
        return self._scheduler.sites.slots_of(np.array(site_ids, np.int64))

    def value_unit(self, objective: str) -> float:
        """Returns the urgency, on the allocator's scale, of a page on trial with value 1; nan if there is no such
        scale.

        The index of the objective for weight 1 and a copy that is certainly new, averaged over the collection:
        integrated over the beliefs, as the index of a refresh is, so that both are on one scale. The horizon of the
        gain is the age of the collection, as an unlimited gain cannot be compared.
        """
        if self._scheduler.allocator_name not in ON_A_SCALE or objective in TIMELY:
            return math.nan
        held = np.flatnonzero(self._scheduler.live())
        held = self._rng.choice(held, _RATES_OF) if len(held) > _RATES_OF else held
        if not len(held):
            return _RATE_UNKNOWN_UNIT
        rates, probabilities = self._scheduler.allocator.belief_of(held)
        amplitude, rate = amplitude_and_rate(objective, rates, np.ones(1), np.full(1, np.nan))
        horizon = max(self._clock() - self._state.started_at, _HORIZON_LEAST_SECONDS)
        return float((probabilities * amplitude * -np.expm1(-rate * horizon)).sum(axis=1).mean())

    async def _pause(self) -> None:
        """Waits until a trial was committed, or a short time passed."""
        try:
            async with asyncio.timeout(_EVERY_SECONDS):
                await self._state.committed.wait()
        except TimeoutError:
            return
        finally:
            self._state.committed.clear()


async def _to_its_end(work: Coroutine[None, None, int]) -> int:
    """Returns the result of the work; on cancellation lets it finish first, to leave no transaction half done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class CrawlHook:
    """Connects the focused crawler, its page reader and its limit on concurrent requests to the polls."""

    chooses_ahead = False

    def __init__(
        self, *, starter: TrialStarter, judge: PageJudge, reader: PageReader, limiter: ConcurrencyLimiter
    ) -> None:
        self._limiter = limiter
        self.wants_whole = reader.wants_whole
        self.following = reader.following
        self.read = reader.read
        self.started, self.responded, self.processed = limiter.started, limiter.responded, limiter.processed
        self.known_urls, self.judge = judge.known_urls, judge.judge
        self.apply_committed, self.forget, self.run = judge.apply_committed, judge.forget, starter.run

    def may_start(self) -> bool:
        """Returns whether the limit allows one more request."""
        return self._limiter.may_start

    def pause_after(self, latency: float, interval: float) -> float:
        """Returns the latency as the pause for a host that answers more slowly than its interval, else 0."""
        return pause_s(0.0, latency) if latency > interval else 0.0
