"""The processor of a batch of results, in steps: noise, status, crawl, learn, announce, store, apply.

The journal stores the batch between `prepare`, which runs the first five steps, and `apply_committed`, the last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Protocol

import numpy as np
import structlog
from msgspec.structs import replace
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.daemon.announcer import Announcer
from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.gathering import max_commit_delay
from pollerd.daemon.noise import NoiseStep
from pollerd.daemon.poll_result import Judgement, PollEffect, PollResult, SiteCache
from pollerd.daemon.prover import ProofUpdates
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.signals import SignalYield
from pollerd.daemon.transition import PrivateAddresses, StatusStep
from pollerd.daemon.unchanged import note_announced_ttl, note_unchanged
from pollerd.daemon.views import CalibrationView, DecileView, PollFeed
from pollerd.model import STATE_CODE, Media, SelectionState, SiteState
from pollerd.storage.page_values import CrawlUpdate
from pollerd.storage.values import Batch, CommitResult, HostUpdate, PollRecord, StoredRobots
from pollerd.telemetry import DECILES, Instruments

# Calibration of the allocator: predicted against found changes, by decile of the predicted probability.


class CalibrationSums:
    """Sums over the polls since the allocator became active; the metrics continue across a change of allocator.

    `polls`, `predicted` and `found` float64[10], by decile: number of polls, sum of their predicted probabilities, and
    number that found a change.
    """

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self.begin_anew()

    def begin_anew(self) -> None:
        """Resets the sums for another allocator."""
        self.polls, self.predicted, self.found = np.zeros((3, DECILES))

    def note(self, predicted: NDArray[np.float64], elapsed: NDArray[np.float64], evidence: EvidenceBatch) -> None:
        """Counts k polls: predicted probabilities float64[k] of a change, gaps float64[k] s, and evidence.

        Polls without a known gap (inf) and those without a prediction (nan) are skipped.
        """
        known = np.isfinite(elapsed) & ~np.isnan(predicted)
        probability = predicted[known]
        decile = np.clip((probability * DECILES).astype(np.int64), 0, DECILES - 1)
        changed = evidence.found[known]
        polls, foretold, found = (
            np.bincount(decile, weights, DECILES) for weights in (None, probability, changed.astype(np.float64))
        )
        self.polls += polls
        self.predicted += foretold
        self.found += found
        for one in np.flatnonzero(polls).tolist():
            self._instruments.calibration_polls[one].inc(polls[one])
            self._instruments.calibration_predicted[one].inc(foretold[one])
            self._instruments.calibration_found[one].inc(found[one])

    def view(self) -> CalibrationView:
        """Returns the sums as shares, with the expected calibration error `Σ_d n_d / n |found_d - predicted_d|`.

        Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning" (2015), eq. 1.
        """
        number = float(self.polls.sum())
        count = np.maximum(self.polls, 1.0)
        return CalibrationView(
            polls=int(number),
            expected_error=float(np.abs(self.found - self.predicted).sum()) / number if number else None,
            deciles=tuple(
                DecileView(int(n), predicted if n else None, found if n else None)
                for n, predicted, found in zip(
                    self.polls.tolist(),
                    (self.predicted / count).tolist(),
                    (self.found / count).tolist(),
                    strict=True,
                )
            ),
        )


# The learning step, which passes the evidence of polls to the allocator.


class LearningStep:
    """Passes evidence to the allocator, and reads its learned state."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        status: StatusStep,
        calibration: CalibrationSums,
        signal_yield: SignalYield,
        runtime: Runtime,
    ) -> None:
        self._scheduler, self._status, self._calibration = scheduler, status, calibration
        self._signal_yield, self._faults = signal_yield, runtime.faults
        self._log = structlog.get_logger("pollerd.results")

    def learn(
        self, results: Sequence[PollResult], effects: Sequence[PollEffect]
    ) -> tuple[list[PollEffect], dict[int, bytes]]:
        """Returns the effects, with sites whose evidence raises set aside, and the allocator's state of the sites by
        row.

        Failures and undated first polls are no evidence. A policy checks a batch before it learns from it, so a refused
        batch can be passed again poll by poll.
        """
        misled = [result.slot for result, effect in zip(results, effects, strict=True) if effect.misled]
        if misled:
            self._scheduler.learn_anew(np.array(misled, np.int64))
        self._note_items_shown(results, effects)
        out = list(effects)
        counts_items = self._scheduler.allocator.counts_items
        pairs = zip(results, effects, strict=True)
        informed = [i for i, pair in enumerate(pairs) if _is_evidence(*pair, counts_items=counts_items)]
        try:
            self._observe(results, out, informed)
        except Exception as error:  # noqa: BLE001
            # One poll that the allocator refuses must not cost what the others teach: each is passed alone.
            again = "poll by poll"
            self._log.warning("batch_refused", polls=len(informed), reason=str(error), instead=again, exc_info=error)
            for i in informed:
                try:
                    self._observe(results, out, [i])
                except Exception as cause:  # noqa: BLE001 (reported, and the site is set aside)
                    out[i] = self._unlearnable(results[i], out[i], cause)
        return out, self._states(results, out)

    def _observe(self, results: Sequence[PollResult], effects: Sequence[PollEffect], rows: Sequence[int]) -> None:
        if not rows:
            return
        found = [detection.evidence for i in rows if (detection := results[i].detection) is not None]
        evidence = [one for one in found if one is not None]
        gaps = [effects[i].poll.elapsed for i in rows]
        batch = EvidenceBatch(
            changed=np.array([one.changed for one in evidence], np.bool_),
            age=np.array([math.nan if one.age is None else one.age for one in evidence], np.float64),
            count=np.array([-1 if one.count is None else one.count for one in evidence], np.int64),
            at_least=np.array([-1 if one.at_least is None else one.at_least for one in evidence], np.int64),
            span=np.array([math.nan if one.span is None else one.span for one in evidence], np.float64),
        )
        elapsed = np.array([math.inf if gap is None else gap for gap in gaps], np.float64)
        slots = np.array([results[i].slot for i in rows], np.int64)
        predicted = self._scheduler.allocator.change_probability(slots, elapsed)
        again = np.isfinite(elapsed) | ~np.isnan(batch.age)
        self._signal_yield.note(slots[again], predicted[again], batch.found[again], effects[-1].poll.at)
        self._scheduler.observe(slots, elapsed, batch, effects[-1].poll.at)
        self._calibration.note(predicted, elapsed, batch)

    def _note_items_shown(self, results: Sequence[PollResult], effects: Sequence[PollEffect]) -> None:
        """Passes on how many items the feeds show that were read."""
        read = [i for i, effect in enumerate(effects) if effect.poll.outcome.informative]
        windows = [effects[i].context.baseline.window for i in read]
        shown = [math.nan if window is None or window.shown is None else window.shown for window in windows]
        slots = np.array([results[i].slot for i in read], np.int64)
        self._scheduler.set_items_shown(slots, np.array(shown, np.float64))

    def _unlearnable(self, result: PollResult, effect: PollEffect, error: Exception) -> PollEffect:
        """Returns the effect of a poll that the allocator cannot learn from.

        What the poll found stays; the site backs off as after a failure and gives the reason.
        """
        aside = self._status.effect(self._faults.set_aside(result.slot, result.context, error))
        return replace(
            effect,
            poll=replace(effect.poll, detail=aside.poll.detail),
            state=aside.state,
            not_before=aside.not_before,
            failures=aside.failures,
        )

    def _states(self, results: Sequence[PollResult], effects: Sequence[PollEffect]) -> dict[int, bytes]:
        """Returns the allocator's states of the sites it has just learned from, by row."""
        rows = [i for i, effect in enumerate(effects) if effect.poll.outcome.informative]
        if not rows:
            return {}
        states = self._scheduler.allocator.site_state(np.array([results[i].slot for i in rows], np.int64))
        return {i: state.tobytes() for i, state in zip(rows, states, strict=True)}


def _is_evidence(result: PollResult, effect: PollEffect, *, counts_items: bool) -> bool:
    """Returns whether the poll is evidence on its site's changes, for an allocator that counts items or does not."""
    evidence = None if result.detection is None else result.detection.evidence
    if evidence is None or effect.poll.elapsed is not None or evidence.age is not None:
        return evidence is not None
    return counts_items and evidence.span is not None


# The apply step, which writes committed polls into the scheduler's tables.


class TableUpdates:
    """Writes results into the site table, and collects host updates to be stored."""

    def __init__(self, scheduler: SchedulerState) -> None:
        self._scheduler = scheduler
        self._private = PrivateAddresses(scheduler.sites)

    def apply(self, results: Sequence[PollResult], records: Sequence[PollRecord]) -> None:
        """Updates the sites and frees them for their next poll."""
        sites, slots = self._scheduler.sites, np.array([result.slot for result in results], np.int64)
        informed = [i for i, r in enumerate(records) if r.poll.elapsed is not None and r.poll.outcome.informative]
        counts_items = self._scheduler.allocator.counts_items
        puzzling = [_puzzling(results[i], records[i], counts_items=counts_items) for i in informed]
        sites.note_history(slots[informed], np.array(puzzling, np.bool_))
        sites.forget_history(slots[[i for i in informed if records[i].misled and not records[i].poll.changed]])
        sites.last_gap[slots[informed]] = [records[i].poll.elapsed for i in informed]
        sites.last_poll[slots] = [r.poll.at for r in records]
        sites.last_seen[slots] = [-math.inf if r.last_seen_at is None else r.last_seen_at for r in records]
        sites.not_before[slots] = [r.not_before or 0.0 for r in records]
        sites.failures[slots] = [r.failures for r in records]
        sites.polls[slots] += 1
        sites.changes[slots] += [r.changes for r in records]
        sites.state[slots] = [STATE_CODE[r.state] for r in records]
        sites.asap[slots] = sites.in_flight[slots] = False
        sites.touch(slots)
        ttls = np.array([_ttl(result, record) for result, record in zip(results, records, strict=True)])
        broken = np.array([record.context.baseline.ttl_broken for record in records])
        note_announced_ttl(self._scheduler, slots, ttls, broken)
        self._private.note(slots, records)
        note_unchanged(self._scheduler, slots)

    def host_updates(self, robots: dict[int, StoredRobots]) -> list[HostUpdate]:
        """Returns the hosts touched since the last call; `robots`: new robots.txt by host slot."""
        hosts = self._scheduler.hosts
        n = hosts.size
        touched = np.flatnonzero(hosts.touched[:n] & (hosts.host_id[:n] >= 0)).tolist()
        hosts.touched[:n] = False
        return [
            HostUpdate(
                host_id=int(hosts.host_id[slot]),
                last_start_at=start if math.isfinite(start := float(hosts.last_start[slot])) else None,
                paused_until=float(hosts.paused_until[slot]) or None,
                throttles=int(hosts.throttles[slot]),
                robots=robots.get(slot),
            )
            for slot in touched
        ]


def _puzzling(result: PollResult, record: PollRecord, *, counts_items: bool) -> bool:
    """Returns whether a change has no known cause: a feed with identified new entries has one, and what is dated.

    For an allocator that counts items also if all of them are new: a feed that drops items is not to be held back.
    """
    baseline = record.context.baseline
    full = counts_items and baseline.window is not None and baseline.window.full
    return (
        record.poll.changed
        and not result.date_believed
        and not (baseline.media is Media.FEED and (record.poll.count or full))
    )


def _ttl(result: PollResult, record: PollRecord) -> float:
    """Returns the seconds for which the page, by its headers or as a feed, asks not to be polled again; 0: none."""
    return max(result.outcome.fresh_for or 0.0, record.context.baseline.ttl or 0.0)


# Values that only the daemon knows and lists of sites are sorted by: estimated rates, and the next possible poll.

_DAY_SECONDS = 86_400.0


def listed(
    results: Sequence[PollResult], records: Sequence[PollRecord], scheduler: SchedulerState
) -> tuple[PollRecord, ...]:
    """Returns the records with the believed rate of each site after its poll, and the earliest moment of its next.

    Before its second poll nothing is believed of a site: its rate is the prior's.
    """
    if not results:
        return tuple(records)
    sites, slots = scheduler.sites, np.array([result.slot for result in results], np.int64)
    rates = scheduler.allocator.rates_of(slots) * _DAY_SECONDS
    rates[(sites.polls[slots] < 1) | ~np.isfinite(rates)] = math.nan
    floors = scheduler.floors(slots)
    out = []
    for record, rate, floor in zip(records, rates.tolist(), floors.tolist(), strict=True):
        known = None if math.isnan(rate) or record.last_seen_at is None else rate
        soonest = record.poll.at + floor if math.isfinite(floor) else record.poll.at
        out.append(replace(record, rate=known, next_poll_at=max(soonest, record.not_before or 0.0)))
    return tuple(out)


class SignalIntake(Protocol):
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
    signals: SignalIntake
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

    def max_commit_delay(self, result: PollResult) -> float:
        """Returns the seconds that the result may wait for others without effect."""
        return max_commit_delay(result, self._scheduler.sites, self._scheduler.settings)

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
