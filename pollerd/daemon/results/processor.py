"""The steps that process a batch of results: noise, status, crawl, learn, announce, store, apply.

The journal stores the batch between `prepare`, which runs the first five steps, and `apply_committed`, the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from pollerd.daemon.crawler.hook import PageHook
from pollerd.daemon.results.announcing.announcer import Announcer
from pollerd.daemon.results.changes import NoiseStep
from pollerd.daemon.results.gathering import free_to_wait
from pollerd.daemon.results.learning import LearningStep
from pollerd.daemon.results.listing import listed
from pollerd.daemon.results.poll_feed import PollFeed
from pollerd.daemon.results.proofs.updates import ProofUpdates
from pollerd.daemon.results.status import StatusStep
from pollerd.daemon.results.tables import TableUpdates
from pollerd.daemon.state.poll_result import Judgement, PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.model import SelectionState, SiteState
from pollerd.storage import Batch, CommitResult, CrawlUpdate, PollRecord, StoredRobots


class ReadsSignals(Protocol):
    """Reads what polls of signal sources say of other pages."""

    async def store_signals(self, results: Sequence[PollResult]) -> None:
        """Stores what the polls say. Raises DatabaseUnavailableError; may be repeated then."""

    def with_dates(self, results: Sequence[PollResult]) -> Sequence[PollResult]:
        """Returns the results with the dates that sources gave of their sites' changes since the polls before."""

    def is_long(self, result: PollResult) -> bool:
        """Returns whether the poll's list is so long that no other poll waits for it."""

    async def store_long(self, result: PollResult) -> PollResult:
        """Stores what a long list says; returns the poll as one of which that is stored. Raises as `store_signals`."""

    async def apply_committed(self) -> None:
        """Passes what was stored to the allocator."""


@dataclass(frozen=True)
class PreparedBatch:
    """Results and their records, row by row, for one transaction."""

    results: tuple[PollResult, ...]
    records: tuple[PollRecord, ...]
    crawled: CrawlUpdate | None = None
    """Further data of the focused crawler to be stored."""
    slow: tuple[PollResult, ...] = ()
    """Results that left the batch, to be prepared by themselves."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The parts that run the steps."""

    noise: NoiseStep
    status: StatusStep
    crawl: PageHook
    learning: LearningStep
    announcing: Announcer
    signals: ReadsSignals
    tables: TableUpdates
    proofs: ProofUpdates


class ResultProcessor:
    """Takes results through the steps."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        steps: Steps,
        site_cache: SiteCache,
        remove_site: Callable[[int], None],
        poll_feed: PollFeed,
        runtime: Runtime,
    ) -> None:
        """`remove_site`: removes a site, by its id, that ended with its page."""
        self._scheduler, self._steps, self._site_cache = scheduler, steps, site_cache
        self._remove_site, self._faults, self._instruments = remove_site, runtime.faults, runtime.instruments
        self._poll_feed = poll_feed

    def free_to_wait(self, result: PollResult) -> float:
        """Returns the seconds that the result may wait for others without effect."""
        return free_to_wait(result, self._scheduler.sites, self._scheduler.settings)

    def is_slow(self, result: PollResult) -> bool:
        """Returns whether the result is known to take long, and is to be prepared by itself."""
        return self._steps.signals.is_long(result) or self._steps.noise.is_slow(result)

    async def prepare_alone(self, result: PollResult) -> PollResult:
        """Returns a slow result after the work that takes long; afterwards it is prepared with others.

        May be repeated after DatabaseUnavailableError.
        """
        steps = self._steps
        if steps.signals.is_long(result):
            result = await steps.signals.store_long(result)
        (dated,) = steps.signals.with_dates([result])
        noise = await steps.noise.recognise([replace(dated, alone=True)])
        (result,) = noise.results
        lines, _ = await steps.announcing.lines_of(noise.results)
        return replace(result, judgement=Judgement(noise.summaries.get(result.site_id), lines))

    async def prepare(self, results: Sequence[PollResult], moved: Collection[int]) -> PreparedBatch:
        """Runs the steps before the commit; may be repeated only after `DatabaseUnavailableError`.

        moved: ids of sites whose URL changed since they were polled; may grow during the call.
        """
        steps = self._steps
        await steps.signals.store_signals(results)
        noise = await steps.noise.recognise(steps.signals.with_dates(results))
        lines, without_lines = await steps.announcing.lines_of(noise.results)
        leaving = noise.slow | without_lines
        slow = tuple(replace(one, signals_stored=True) for one in results if one.site_id in leaving)
        results = [one for one in noise.results if one.site_id not in leaving]
        known_urls = await steps.crawl.known_urls(results)
        current = list(compress(results, self._current(results, moved)))
        results, effects = steps.status.effects(current, noise.summaries)
        pages, crawled = steps.crawl.judge(results, effects, known_urls)
        effects, learned = steps.learning.learn(results, effects)
        records = tuple(effect.record(learned.get(i), pages.get(i)) for i, effect in enumerate(effects))
        records = listed(results, records, self._scheduler)
        records = await steps.announcing.announce(results, records, lines)
        return PreparedBatch(tuple(results), records, crawled, slow)

    def batch(self, prepared: PreparedBatch, robots: dict[int, StoredRobots], *, with_shared_state: bool) -> Batch:
        """Returns the transaction: the records, the hosts touched since the last one, and periodically the shared
        state.
        """
        allocator = self._scheduler.allocator
        return Batch(
            records=prepared.records,
            hosts=self._steps.tables.host_updates(robots),
            allocator=self._scheduler.allocator_name,
            shared_state=allocator.shared_state() if with_shared_state else None,
            findings=prepared.crawled,
        )

    def set_aside(self, result: PollResult, error: Exception) -> PreparedBatch:
        """Returns the batch that replaces a poll that the database refused because of its contents."""
        aside = self._faults.set_aside(result.slot, result.context, error)
        return PreparedBatch((aside,), (self._steps.status.effect(aside).record(),))

    def apply_committed(self, prepared: PreparedBatch, committed: CommitResult, moved: Collection[int]) -> None:
        """Updates tables, cache, crawler and metrics, and frees the sites for their next poll.

        moved: as in `prepare`.
        """
        self._count(prepared.records)
        self._poll_feed.note(prepared.records)
        self._steps.announcing.apply_committed(prepared.records)
        current = self._current(prepared.results, moved)
        results, records = list(compress(prepared.results, current)), list(compress(prepared.records, current))
        if results:
            self._steps.tables.apply(results, records)
            self._steps.proofs.apply(results)
        for result, record in zip(results, records, strict=True):
            content_id = committed.content_ids.get(result.site_id)
            after = record.context if content_id is None else replace(record.context, content_id=content_id)
            if record.selections:
                after = replace(after, states=_with_ids(record, committed))
            self._site_cache.follow(result.context, after)
            if record.state is SiteState.ACTIVE:
                self._faults.passed(result)
        for site_id in self._steps.crawl.apply_committed(records, prepared.crawled, committed.stale_pages):
            self._remove_site(site_id)

    async def pass_signals_on(self) -> None:
        """Passes to the allocator what committed polls of signal sources said."""
        await self._steps.signals.apply_committed()

    def _current(self, results: Sequence[PollResult], moved: Collection[int]) -> list[bool]:
        """Returns for each result whether its slot still holds its site, at the same URL."""
        held = self._scheduler.sites.site_id[np.array([result.slot for result in results], np.int64)].tolist()
        pairs = zip(results, held, strict=True)
        return [result.site_id == site_id and site_id not in moved for result, site_id in pairs]

    def _count(self, records: Sequence[PollRecord]) -> None:
        instruments = self._instruments
        for outcome, number in Counter(record.poll.outcome for record in records).items():
            instruments.polls[outcome].inc(number)
        instruments.response_bytes.inc(sum(record.poll.bytes for record in records))
        instruments.changes.inc(sum(record.changes for record in records))
        instruments.full_feeds.inc(sum(_is_full(record) for record in records))
        instruments.poll_duration.observe_all([record.poll.duration for record in records])


def _is_full(record: PollRecord) -> bool:
    """Returns whether the poll found a feed with new items only."""
    window = record.context.baseline.window
    return window is not None and record.poll.changed and window.full


def _with_ids(record: PollRecord, committed: CommitResult) -> tuple[SelectionState, ...]:
    """Returns the states of the selections with the ids of their committed contents."""
    new = {(one.state.name): one.announces for one in record.selections if one.content is not None}
    states = []
    for state in record.context.states:
        content_id = committed.selected_ids.get((record.poll.site_id, state.name)) if state.name in new else None
        if content_id is not None:
            announced_id = content_id if new[state.name] else state.announced_id
            state = replace(state, content_id=content_id, announced_id=announced_id)
        states.append(state)
    return tuple(states)
