"""The commit of finished polls, in batches at most a second old.

A batch goes through six steps, which `Journal` has in their order: recognise noise, status, learn, announce, store,
apply. Each poll is in three stages on the way: `Answer` and `Found` (`daemon.stages`), and the `PollRecord` that is
stored. A batch is repeated until the database answers.

A batch costs the loop, the allocator and the database nearly the same with one poll as with ten. A result that takes
long is prepared by itself before it joins one, so that the others do not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as altered
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import structlog
from msgspec.structs import replace

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import typical_rates
from pollerd.daemon.announcer import Announcer
from pollerd.daemon.calibration import CalibrationSums
from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.faults import FIRST_RETRY_SECONDS, RETRY_CAP_SECONDS
from pollerd.daemon.noise import NoiseFindings, NoiseStep
from pollerd.daemon.process import BlindCause
from pollerd.daemon.prover import ProofUpdates
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.signal_reader import SignalReader
from pollerd.daemon.signals import SignalYield
from pollerd.daemon.slow_results import SlowResults
from pollerd.daemon.stages import Found, Judgement, SiteCache
from pollerd.daemon.transition import PrivateAddresses, record_of
from pollerd.daemon.unchanged import note_announced_ttl, note_unchanged
from pollerd.daemon.views import PollFeed
from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError, SchemaError
from pollerd.model import STATE_CODE, Media, OutcomeKind, SelectionState, SiteState
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable
from pollerd.storage.page_values import CrawlUpdate
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, CommitResult, HostUpdate, PollRecord, SiteContext, StoredRobots
from pollerd.telemetry import Instruments
from pollerd.texts import _

if TYPE_CHECKING:
    from pollerd.daemon.announcing import Lines

_SHARED_STATE_SECONDS = 30.0
"""Interval between two stores of the large shared state; after a crash it relearns from the polls since then."""

_BATCH_TARGET, _BATCH_TARGET_AT_SERVER = 16, 64
"""Batch size from which waiting for more gains little: a larger batch saves little per poll, and blocks the loop
longer. A commit costs a server of its own as much as forty polls (docs/limits.md)."""
_NOTHING_NEW = frozenset({OutcomeKind.UNCHANGED, OutcomeKind.NOT_MODIFIED})
_DAY_SECONDS = 86_400.0

T = TypeVar("T")


@dataclass(frozen=True)
class PreparedBatch:
    """Polls and their records, row by row, for one transaction."""

    results: tuple[Found, ...]
    records: tuple[PollRecord, ...]
    crawled: CrawlUpdate | None = None
    """Further data of the focused crawler to be stored."""
    slow: tuple[Found, ...] = ()
    """Polls that left the batch, to be prepared by themselves."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The parts that the steps call."""

    noise: NoiseStep
    crawl: PageHook | None
    """None: no topic is set."""
    calibration: CalibrationSums
    signal_yield: SignalYield
    announcer: Announcer
    signals: SignalReader
    """Called only if there are `signal_sources`."""
    signal_sources: Mapping[int, object]
    proofs: ProofUpdates
    site_cache: SiteCache
    remove_site: Callable[[int], None]
    """Removes a site, by its id, that ended with its page."""
    poll_feed: PollFeed


def _part(batch: Batch, records: tuple[PollRecord, ...]) -> Batch:
    """Returns a separate batch with some of the records."""
    return altered(batch, records=records, hosts=(), shared_state=None, notices=(), id=Batch().id)


class Journal:
    """Takes results, keeps them until they are committed, then frees their sites for the next poll.

    While the database does not accept commits the same batch is retried, and `health` reports it (so that the
    poller starts nothing).
    """

    def __init__(self, *, scheduler: SchedulerState, steps: Steps, store: Store, runtime: Runtime) -> None:
        self._scheduler, self._steps, self._store, self._health = scheduler, steps, store, runtime.health
        self._faults, self._rng = runtime.faults, runtime.rng
        self._private = PrivateAddresses(scheduler.sites)
        self._blindness, self._clock = runtime.blindness, runtime.clock
        self._settings, self._instruments = runtime.settings, runtime.instruments
        self._batch_target = _BATCH_TARGET if store.database.is_sqlite else _BATCH_TARGET_AT_SERVER
        self._waiting: list[Found] = []
        self._robots: dict[int, StoredRobots] = {}
        self._hosts_touched = False
        self._moved: set[int] = set()
        """Sites whose URL changed while the current batch is being committed."""
        self._due = asyncio.Event()
        self._slow = SlowResults(prepare=self._prepare_alone, hand_on=self._take, on_end=self._slow_ended)
        self._timer: asyncio.Handle | None = None
        self._flush_at = math.inf
        self._closing = False
        self._busy = asyncio.Lock()
        self._first_at = self._shared_at = -math.inf
        self._upgraded = False
        """Whether it was logged that sites are taken over from an earlier reader."""
        self._log = structlog.get_logger("pollerd.journal")

    def put(self, result: Found) -> None:
        """Takes a result; its site stays in flight until it is committed. One that takes long is prepared by
        itself first.
        """
        if self._steps.noise.is_slow(result) or (self._steps.signal_sources and self._steps.signals.is_long(result)):
            self._slow.begin(result)
        else:
            self._take(result)

    def _take(self, result: Found) -> None:
        if not self._waiting:
            self._first_at = time.monotonic()
        self._waiting.append(result)
        waiting, settings = len(self._waiting), self._settings
        if waiting >= settings.flush_polls:
            self._due.set()
        elif waiting >= self._batch_target:
            self._flush_within(self._first_at + settings.flush_seconds - time.monotonic())
        else:
            may_wait = min(
                max_commit_delay(result, self._scheduler.sites, self._scheduler.settings), settings.gather_seconds
            )
            self._flush_within(max(may_wait, settings.flush_seconds))

    def forget(self, site_id: int) -> None:
        """Drops the waiting polls of a site whose URL changed."""
        self._waiting = [result for result in self._waiting if result.site_id != site_id]
        self._slow.drop(site_id)
        self._moved.add(site_id)

    def put_robots(self, host: int, robots: StoredRobots) -> None:
        """Takes the robots.txt result of the host slot."""
        self._robots[host] = robots
        self._flush_within(self._settings.flush_seconds)

    def put_hosts(self) -> None:
        """Has the hosts that were touched without a poll of their sites committed."""
        self._hosts_touched = True
        self._flush_within(self._settings.flush_seconds)

    def close(self) -> None:
        """Accepts no more results: `run` ends once all are committed, but for those that take too long.

        The polls of these are repeated after the next start.
        """
        self._closing = True
        asyncio.get_running_loop().call_later(self._settings.drain_seconds / 2, self._slow.cancel)
        self._due.set()

    async def run(self) -> None:
        """Commits until closed."""
        try:
            while not self._closing or self._waiting or self._robots or len(self._slow):
                await self._due.wait()
                self._due.clear()
                if self._slow.failure is not None:
                    raise self._slow.failure
                await self.flush()
        finally:
            self._slow.cancel()
        self._shared_at = -math.inf
        await self.flush()

    async def flush(self) -> None:
        """Commits the results so far; returns when they are in the database."""
        async with self._busy:
            await self._flush()

    @contextlib.asynccontextmanager
    async def quiesced(self) -> AsyncIterator[None]:
        """Commits the results so far; later ones wait until the block ends."""
        async with self._busy:
            await self._flush()
            yield

    def _slow_ended(self) -> None:
        if self._closing or self._slow.failure is not None:
            self._due.set()

    def _flush_within(self, seconds: float) -> None:
        """Schedules a commit within `seconds`; an earlier one stays scheduled."""
        at = time.monotonic() + (0.0 if self._closing else seconds)
        if at < self._flush_at:
            self._call_off()
            self._flush_at = at
            self._timer = asyncio.get_running_loop().call_later(max(at - time.monotonic(), 0.0), self._due.set)

    def _call_off(self) -> None:
        """Cancels the scheduled commit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._flush_at = None, math.inf

    async def _flush(self) -> None:
        """Takes the results that wait through the six steps."""
        self._call_off()
        results, self._waiting = self._waiting, []
        self._moved.clear()
        robots, self._robots = self._robots, {}
        touched, self._hosts_touched = self._hosts_touched, False
        if not results and not robots and not touched and self._shared_at > -math.inf:
            return
        prepared = await self._prepare(results)
        for result in prepared.slow:
            if result.site_id not in self._moved:
                self._slow.begin(result)
        allocator, now = self._scheduler.allocator, time.monotonic()
        shared_due = now - self._shared_at >= _SHARED_STATE_SECONDS
        if shared_due:
            self._shared_at = now
        batch = Batch(
            records=prepared.records,
            hosts=self._host_updates(robots),
            allocator=self._scheduler.allocator_name,
            shared_state=allocator.shared_state() if shared_due else None,
            findings=prepared.crawled,
        )
        started = time.perf_counter()
        try:
            committed = await self._commit(batch)
        except (DatabaseInUseError, SchemaError):
            raise
        except Exception:  # noqa: BLE001
            # One poll that the database refuses, whatever the reason, must not cost the others: each is tried alone.
            self._log.exception("batch_refused", polls=len(batch.records), effect="each poll is stored separately")
            prepared, committed = await self._commit_singly(prepared, batch)
        self._instruments.commit.observe(time.perf_counter() - started)
        self._apply(prepared, committed)
        if self._steps.signal_sources:
            await self._steps.signals.apply_committed()

    # The steps before the commit.

    async def _prepare(self, waiting: Sequence[Found]) -> PreparedBatch:
        """Runs the steps before the commit. Those that read the database are repeated until it answers; what learns is
        not: the same evidence must not count twice.
        """
        steps, announcer = self._steps, self._steps.announcer
        noise, lines, leaving, known_urls = await self._retry(partial(self._read_about, waiting))
        slow, results = tuple[Found, ...](), noise.results
        if leaving:
            slow = tuple(replace(result, signals_stored=True) for result in waiting if result.site_id in leaving)
            results = [result for result in results if result.site_id not in leaving]
        current = self._current(results)
        results, records = self._status(results if all(current) else list(compress(results, current)), noise.summaries)
        pages, crawled = ({}, None) if steps.crawl is None else steps.crawl.judge(results, records, known_urls)
        records = self._learn(results, records)
        for i, page in pages.items():
            # The content of a page that ended is not stored.
            ended = {"content": None, "selections": ()} if page.ended else {}
            records[i] = replace(records[i], page=page, **ended)
        announced = tuple(records)
        if announcer.active or any(record.change is not None for record in records):
            announced = await self._retry(partial(announcer.announce, results, announced, lines))
        return PreparedBatch(tuple(results), announced, crawled, slow)

    async def _read_about(
        self, results: Sequence[Found]
    ) -> tuple[NoiseFindings, Lines | None, frozenset[int], set[str]]:
        """Returns what is noise, the lines of changes, whose results leave the batch, and which URLs are known."""
        steps, announcer = self._steps, self._steps.announcer
        lines, without_lines, known_urls = None, frozenset[int](), set[str]()
        if steps.signal_sources:
            await steps.signals.store_signals(results)
            results = steps.signals.with_dates(results)
        noise = await steps.noise.recognise(results)
        if announcer.active and announcer.wants_lines:
            lines, without_lines = await announcer.lines_of(noise.results)
        leaving = noise.slow | without_lines
        if steps.crawl is not None:
            known_urls = await steps.crawl.known_urls(
                [result for result in noise.results if result.site_id not in leaving]
            )
        return noise, lines, leaving, known_urls

    async def _prepare_alone(self, result: Found) -> Found:
        """Returns a slow result after the work that takes long; afterwards it is prepared with others."""

        async def prepared() -> Found:
            stored, signals, announcer = result, self._steps.signals, self._steps.announcer
            if self._steps.signal_sources:
                if signals.is_long(stored):
                    stored = await signals.store_long(stored)
                (stored,) = signals.with_dates([stored])
            noise = await self._steps.noise.recognise([replace(stored, alone=True)])
            (stored,) = noise.results
            lines = (await announcer.lines_of([stored]))[0] if announcer.wants_lines else None
            return replace(stored, judgement=Judgement(noise.summaries.get(stored.site_id), lines))

        return await self._retry(prepared)

    def _status(self, results: Sequence[Found], summaries: Mapping[int, str]) -> tuple[list[Found], list[PollRecord]]:
        """Returns the polls and their records, row by row; `summaries` describe changes by site id.

        A site whose poll raises is set aside: its row becomes that.
        """
        out, records = list(results), list[PollRecord]()
        for i, result in enumerate(results):
            try:
                summary = summaries.get(result.answer.context.site_id, "")
                record = record_of(result, summary, self._scheduler, self._rng)
                before, after = result.answer.context, record.context
                masked = before.baseline.mask or after.baseline.mask or before.states
                if masked and self._steps.proofs.still.hid_change(result):
                    record = replace(record, hid_change=True)
            except Exception as error:  # noqa: BLE001
                # Whatever one poll triggers is reported and sets its site aside; the others of the batch are kept.
                out[i] = self._faults.set_aside(result.slot, result.context, error)
                record = record_of(out[i], "", self._scheduler, self._rng)
            records.append(record)
        return out, records

    def _learn(self, results: Sequence[Found], records: list[PollRecord]) -> list[PollRecord]:
        """Passes the evidence of the polls to the allocator; returns the records with what it then says of the sites.

        That is its state, the believed rate and the earliest moment of the next poll. Failures and undated first polls
        are no evidence. Sites whose evidence raises are set aside.
        """
        if not results:
            return records
        scheduler, allocator = self._scheduler, self._scheduler.allocator
        each, misled, read, shown, informed = list[int](), list[int](), list[int](), list[float](), list[int]()
        for i, (result, record) in enumerate(zip(results, records, strict=True)):
            each.append(result.answer.slot)
            evidence = None if result.detection is None else result.detection.evidence
            if record.misled:
                misled.append(result.answer.slot)
            if record.poll.outcome.informative:
                window = record.context.baseline.window
                read.append(i)
                shown.append(math.nan if window is None or window.shown is None else window.shown)
            if evidence is not None and (
                record.poll.elapsed is not None
                or evidence.age is not None
                or (allocator.counts_items and evidence.span is not None)
            ):
                informed.append(i)
        slots = np.array(each, np.int64)
        if misled:
            scheduler.learn_anew(np.array(misled, np.int64))
        scheduler.set_items_shown(slots[read], np.array(shown, np.float64))
        if informed:
            records = self._observe_all(results, records, informed)
        states = allocator.site_state(slots[read]) if read else ()
        learned = dict(zip(read, states, strict=True))
        # Before its second poll nothing is believed of a site: its rate is the prior's.
        rates = typical_rates(allocator.belief_of(slots)) * _DAY_SECONDS
        rates[(scheduler.sites.polls[slots] < 1) | ~np.isfinite(rates)] = math.nan
        out = []
        for i, (rate, floor) in enumerate(zip(rates.tolist(), scheduler.floors(slots).tolist(), strict=True)):
            record = records[i]
            soonest = record.poll.at + floor if math.isfinite(floor) else record.poll.at
            changed = replace(
                record,
                learned=learned[i].tobytes() if i in learned else None,
                rate=None if math.isnan(rate) or record.last_seen_at is None else rate,
                next_poll_at=max(soonest, record.not_before or 0.0),
            )
            out.append(changed)
        return out

    def _observe_all(
        self, results: Sequence[Found], records: list[PollRecord], informed: Sequence[int]
    ) -> list[PollRecord]:
        """Has the allocator learn from those rows; returns the records, with sites whose evidence raises set aside.

        A policy checks a batch before it learns from it, so a refused batch can be passed again poll by poll.
        """
        try:
            self._observe(results, records, informed)
        except Exception as error:
            # One poll that the allocator refuses must not cost what the others teach: each is passed alone.
            effect = _("the policy learns from each poll separately")
            log = structlog.get_logger("pollerd.results")
            log.warning("learning_refused", polls=len(informed), reason=str(error), effect=effect, exc_info=error)
            for i in informed:
                try:
                    self._observe(results, records, [i])
                except Exception as cause:  # noqa: BLE001 (reported, and the site is set aside)
                    records[i] = self._unlearnable(results[i], records[i], cause)
        return records

    def _observe(self, results: Sequence[Found], records: Sequence[PollRecord], rows: Sequence[int]) -> None:
        columns = list[tuple[float, ...]]()
        for i in rows:
            detection, gap = results[i].detection, records[i].poll.elapsed
            evidence = None if detection is None else detection.evidence
            assert evidence is not None
            columns.append(
                (
                    results[i].answer.slot,
                    math.inf if gap is None else gap,
                    evidence.changed,
                    math.nan if evidence.age is None else evidence.age,
                    -1 if evidence.count is None else evidence.count,
                    -1 if evidence.at_least is None else evidence.at_least,
                    math.nan if evidence.span is None else evidence.span,
                )
            )
        slots, elapsed, changed, age, count, at_least, span = np.array(columns, np.float64).T
        slots = slots.astype(np.int64)
        batch = EvidenceBatch(
            changed=changed.astype(np.bool_),
            age=age,
            count=count.astype(np.int64),
            at_least=at_least.astype(np.int64),
            span=span,
        )
        now, predicted = records[-1].poll.at, self._scheduler.allocator.change_probability(slots, elapsed)
        if self._steps.signal_sources:
            again = np.isfinite(elapsed) | ~np.isnan(age)
            self._steps.signal_yield.note(slots[again], predicted[again], batch.found[again], now)
        self._scheduler.observe(slots, elapsed, batch, now)
        self._steps.calibration.note(predicted, elapsed, batch)

    def _unlearnable(self, result: Found, record: PollRecord, error: Exception) -> PollRecord:
        """Returns the record of a poll that the allocator cannot learn from.

        What the poll found stays; the site backs off as after a failure and gives the reason.
        """
        set_aside = self._faults.set_aside(result.slot, result.context, error)
        aside = record_of(set_aside, "", self._scheduler, self._rng)
        return replace(
            record,
            poll=replace(record.poll, detail=aside.poll.detail),
            state=aside.state,
            not_before=aside.not_before,
            failures=aside.failures,
        )

    def _host_updates(self, robots: dict[int, StoredRobots]) -> list[HostUpdate]:
        """Returns the hosts touched since the last call; `robots`: new robots.txt by host slot."""
        hosts, updates = self._scheduler.hosts, list[HostUpdate]()
        n = hosts.size
        if robots:  # one may have come while an earlier batch was prepared, which took the mark of its host
            hosts.touched[list(robots)] = True
        for slot in np.flatnonzero(hosts.touched[:n] & (hosts.host_id[:n] >= 0)).tolist():
            start = float(hosts.last_start[slot])
            update = HostUpdate(
                host_id=int(hosts.host_id[slot]),
                last_start_at=start if math.isfinite(start) else None,
                paused_until=float(hosts.paused_until[slot]) or None,
                throttles=int(hosts.throttles[slot]),
                robots=robots.get(slot),
            )
            updates.append(update)
        hosts.touched[:n] = False
        return updates

    # The step of storing.

    async def _commit(self, batch: Batch) -> CommitResult:
        """Commits, retrying until the database answers."""
        return await self._retry(partial(self._store.commit, batch))

    async def _commit_singly(self, prepared: PreparedBatch, batch: Batch) -> tuple[PreparedBatch, CommitResult]:
        """Commits each poll separately; a site whose poll is refused is set aside.

        A refusal not caused by any site also affects the final commit, and is raised.
        """
        content_ids, selected_ids = dict[int, int](), dict[tuple[int, str], int]()
        stale, skipped = list[int](), list[int]()
        alone = PreparedBatch((), ())
        for result, record in zip(prepared.results, prepared.records, strict=True):
            kept = PreparedBatch((result,), (record,))
            try:
                committed = await self._commit(_part(batch, kept.records))
                content_ids.update(committed.content_ids)
                selected_ids.update(committed.selected_ids)
                stale += committed.stale_pages
                skipped += committed.skipped
            except (DatabaseInUseError, SchemaError):
                raise
            except Exception as error:  # noqa: BLE001
                # As in the batch: this is the poll that is refused. It is reported, and its site set aside.
                aside = self._faults.set_aside(result.slot, result.context, error)
                kept = PreparedBatch((aside,), (record_of(aside, "", self._scheduler, self._rng),))
                await self._commit_if_possible(_part(batch, kept.records))
            alone = PreparedBatch(alone.results + kept.results, alone.records + kept.records, prepared.crawled)
        await self._commit(altered(batch, records=(), id=Batch().id))
        return alone, CommitResult(
            skipped=tuple(skipped), content_ids=content_ids, selected_ids=selected_ids, stale_pages=tuple(stale)
        )

    async def _commit_if_possible(self, batch: Batch) -> None:
        try:
            await self._commit(batch)
        except (DatabaseInUseError, SchemaError):
            raise
        except Exception:  # noqa: BLE001
            # The site was set aside for a first refusal; that this cannot be written either is only logged.
            self._log.exception("site_state_refused", site_id=batch.records[0].poll.site_id, effect="kept in memory")

    # The step after the commit.

    def _apply(self, prepared: PreparedBatch, committed: CommitResult) -> None:
        """Updates tables, cache, crawler and metrics, and frees the sites for their next poll."""
        steps, results, records = self._steps, prepared.results, prepared.records
        # A poll that is not in the database opened no incident there, and is none that users can look up.
        stored = _without(records, committed.skipped) if committed.skipped else records
        if stored:
            _count(self._instruments, stored)
            if steps.poll_feed.watchers:
                steps.poll_feed.note(stored)
            if steps.announcer.active:
                steps.announcer.apply_committed(stored)
        current = self._current(results)
        if not all(current):
            results, records = tuple(compress(results, current)), tuple(compress(records, current))
        if results:
            if update_sites(self._scheduler, results, records):
                self._private.note(results, records)
            steps.proofs.apply(results)
        self._follow(results, records, committed)
        if steps.crawl is not None:
            records = _without(records, committed.skipped) if committed.skipped else records
            for site_id in steps.crawl.apply_committed(records, prepared.crawled, committed.stale_pages):
                steps.remove_site(site_id)

    def _follow(self, results: Sequence[Found], records: Sequence[PollRecord], committed: CommitResult) -> None:
        """Keeps what the next polls of the sites begin with."""
        for result, record in zip(results, records, strict=True):
            before = result.answer.context
            content_id = committed.content_ids.get(before.site_id)
            after = record.context if content_id is None else replace(record.context, content_id=content_id)
            if record.selections:
                after = replace(after, states=_with_ids(record, committed))
            self._steps.site_cache.follow(before, after)
            if before.baseline.reader != after.baseline.reader and before.baseline.fingerprint is not None:
                self._note_upgrade(after)
            if self._faults.in_a_row and record.state is SiteState.ACTIVE:
                self._faults.passed(result)

    def _note_upgrade(self, after: SiteContext) -> None:
        """Logs with the first site that it is taken over from an earlier reader."""
        if not self._upgraded:
            self._upgraded = True
            effect = _("pages that it reads differently are compared from now on; the difference is no change")
            self._log.info("reader_upgraded", reader=after.baseline.reader, url=after.url, effect=effect)

    def _current(self, results: Sequence[Found]) -> list[bool]:
        """Returns for each poll whether its slot still holds its site, at the same URL."""
        site_ids, current = self._scheduler.sites.site_id, list[bool]()
        for result in results:
            site_id = result.answer.context.site_id
            current.append(bool(site_ids[result.answer.slot] == site_id) and site_id not in self._moved)
        return current

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Calls until the database answers."""
        wait = FIRST_RETRY_SECONDS
        while True:
            try:
                result = await call()
            except DatabaseUnavailableError as error:
                self._health.failed("commits", str(error))
                self._blindness.begin(BlindCause.DATABASE, self._clock())
                await asyncio.sleep(wait)
                wait = min(wait * 2, RETRY_CAP_SECONDS)
            else:
                if "commits" in self._health.failing:
                    self._health.works("commits")
                    self._blindness.end(BlindCause.DATABASE, self._clock())
                return result


def _without(records: Sequence[PollRecord], sites: Sequence[int]) -> tuple[PollRecord, ...]:
    return tuple(record for record in records if record.poll.site_id not in sites)


def max_commit_delay(result: Found, sites: SiteTable, settings: SchedulingSettings) -> float:
    """Returns the seconds that the result may be delayed without effect; 0 if it is needed now.

    A result may wait if it found nothing new, as the poll before, if it was not requested by hand, and if its site,
    which stays in flight until the commit, could not be polled earlier anyway because of its min_interval.
    """
    outcome, detection, slot = result.answer.outcome, result.detection, result.answer.slot
    if detection is None or detection.kind not in _NOTHING_NEW or outcome.redirects or result.reading is not None:
        return 0.0
    last = result.answer.context.last_outcome
    if last is None or not last.informative or sites.asap[slot]:
        return 0.0
    own = float(sites.min_interval[slot])
    return max((settings.min_interval_seconds if math.isnan(own) else own) - outcome.duration, 0.0)


def update_sites(scheduler: SchedulerState, results: Sequence[Found], records: Sequence[PollRecord]) -> bool:
    """Writes committed polls into the site table, and frees the sites for their next poll.

    Returns whether `PrivateAddresses` has to note them: an address was refused, or one was earlier.
    """
    sites, counts_items = scheduler.sites, scheduler.allocator.counts_items
    informed, puzzling, gaps, forgotten = list[int](), list[bool](), list[float](), list[int]()
    columns, states, blocked, requested = list[tuple[float, ...]](), list[int](), False, list[int]()
    pending = scheduler.settings_pending
    for result, record in zip(results, records, strict=True):
        poll, baseline, answer, slot = record.poll, record.context.baseline, result.answer, result.answer.slot
        if poll.elapsed is not None and poll.outcome.informative:
            informed.append(slot)
            gaps.append(poll.elapsed)
            puzzling.append(poll.changed and _is_puzzling(result, record, counts_items=counts_items))
            if record.misled and not poll.changed:
                forgotten.append(slot)
        states.append(STATE_CODE[record.state])
        if pending and sites.asap[slot] and scheduler.settings_outdated(answer.context):
            # Its settings were edited while it was polled: it is to be polled at once by the new ones.
            requested.append(slot)
        blocked = blocked or poll.outcome is OutcomeKind.BLOCKED_ADDRESS
        columns.append(
            (
                slot,
                poll.at,
                -math.inf if record.last_seen_at is None else record.last_seen_at,
                record.not_before or 0.0,
                record.failures,
                record.changes,
                # For how long the page, by its headers or as a feed, asks not to be polled again, s; 0: not at all.
                max(answer.outcome.fresh_for or 0.0, baseline.ttl or 0.0),
                baseline.ttl_broken,
                bool(baseline.no_text),
            )
        )
    slots, last_poll, last_seen, not_before, failures, changes, ttls, broken, no_text = np.array(columns, np.float64).T
    slots = slots.astype(np.int64)
    if informed:
        sites.note_history(np.array(informed, np.int64), np.array(puzzling, np.bool_))
        if forgotten:
            sites.forget_history(np.array(forgotten, np.int64))
        sites.last_gap[informed] = gaps
    sites.last_poll[slots], sites.last_seen[slots], sites.not_before[slots] = last_poll, last_seen, not_before
    sites.failures[slots], sites.state[slots] = failures, states
    sites.polls[slots] += 1
    sites.changes[slots] += changes.astype(np.int32)
    sites.asap[slots] = sites.in_flight[slots] = False
    sites.asap[requested] = True
    sites.touch(slots)
    if no_text.any() or not sites.is_default("no_text"):
        sites.put("no_text", slots, no_text.astype(np.bool_))
    note_announced_ttl(scheduler, slots, ttls, broken.astype(np.bool_))
    note_unchanged(scheduler, slots, float(last_poll.max()))
    return blocked or not sites.is_default("private")


def _is_puzzling(result: Found, record: PollRecord, *, counts_items: bool) -> bool:
    """Returns whether a change has no known cause: a feed with identified new entries has one, and what is dated.

    For an allocator that counts items also if all of them are new: a feed that drops items is not to be held back.
    """
    baseline = record.context.baseline
    full = counts_items and baseline.window is not None and baseline.window.full
    return not result.date_believed and not (baseline.media is Media.FEED and (record.poll.count or full))


def _count(instruments: Instruments, records: Sequence[PollRecord]) -> None:
    received = changes = full = hidden = 0
    durations, outcomes = list[float](), dict[OutcomeKind, int]()
    for record in records:
        poll, window = record.poll, record.context.baseline.window
        outcomes[poll.outcome] = outcomes.get(poll.outcome, 0) + 1
        received += poll.bytes
        changes += record.changes
        hidden += record.hid_change
        full += window is not None and poll.changed and window.full  # a feed with new items only
        durations.append(poll.duration)
    for outcome, number in outcomes.items():
        instruments.polls[outcome].inc(number)
    instruments.response_bytes.inc(received)
    instruments.changes.inc(changes)
    instruments.hidden_changes.inc(hidden)
    instruments.full_feeds.inc(full)
    instruments.poll_duration.observe_all(durations)


def _with_ids(record: PollRecord, committed: CommitResult) -> tuple[SelectionState, ...]:
    """Returns the states of the selections with the ids of their committed contents."""
    new = {
        (selection.state.name): selection.announces for selection in record.selections if selection.content is not None
    }
    states = []
    for state in record.context.states:
        content_id = committed.selected_ids.get((record.poll.site_id, state.name)) if state.name in new else None
        if content_id is not None:
            announced_id = content_id if new[state.name] else state.announced_id
            state = replace(state, content_id=content_id, announced_id=announced_id)
        states.append(state)
    return tuple(states)
