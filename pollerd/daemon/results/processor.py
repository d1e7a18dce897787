"""What a batch of findings means for the tables, the allocator, the database and the metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import structlog
from msgspec.structs import replace

from pollerd.allocation import EvidenceBatch
from pollerd.daemon.crawler.crawler import FocusedCrawler
from pollerd.daemon.process.workers import WorkerPool
from pollerd.daemon.results.calibration import CalibrationSums
from pollerd.daemon.results.gathering import free_to_wait
from pollerd.daemon.results.noise import NoiseDetector
from pollerd.daemon.results.private_addresses import PrivateAddresses
from pollerd.daemon.results.transition import REDIRECTS, PollEffect, SiteStatus, judge
from pollerd.daemon.state.believed_unchanged import note_quiet, note_told_ttl
from pollerd.daemon.state.faults import Faults
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.detection import HEAVY_UNDER_MASK_BYTES, summarise
from pollerd.model import STATE_CODE, Media, OutcomeKind, SiteState
from pollerd.storage import Batch, CrawlUpdate, HostUpdate, PollRecord, Store, StoredRobots
from pollerd.telemetry import Instruments
from pollerd.urls import host_of

_SUMMARISED_HERE_BYTES = 256 * 1024
"""Two contents of this size together are described in about 10 ms."""


@dataclass(frozen=True)
class PreparedBatch:
    """Findings with their records, row by row: what one transaction is to keep."""

    findings: tuple[PollResult, ...]
    records: tuple[PollRecord, ...]
    explored: CrawlUpdate | None = None
    """What else is to be kept for the topic robot."""


class ResultProcessor:
    """Judges findings, teaches the allocator, and after the commit brings the tables up to date."""

    def __init__(
        self,
        scheduler: SchedulerState,
        store: Store,
        memories: SiteCache,
        worker_pool: WorkerPool,
        twins: NoiseDetector,
        faults: Faults,
        instruments: Instruments,
        calibration: CalibrationSums,
        rng: np.random.Generator,
        clock: Callable[[], float],
        explorer: FocusedCrawler | None = None,
    ) -> None:
        """`explorer`: the topic robot, where there is one."""
        self._explorer = explorer
        self.on_ended: Callable[[int], None] = lambda site_id: None
        """Told of each site that went with its page."""
        self._calibration = calibration
        self._scheduler, self._store, self._memories, self._worker_pool = scheduler, store, memories, worker_pool
        self._twins = twins
        self._faults, self._instruments, self._rng, self._clock = faults, instruments, rng, clock
        self._private = PrivateAddresses(scheduler.sites)
        self._log = structlog.get_logger("pollerd.bookkeeper")

    def free_to_wait(self, finding: PollResult) -> float:
        """Seconds for which nobody misses what the finding says: so long it may wait for others."""
        return free_to_wait(finding, self._scheduler.sites, self._scheduler.settings)

    async def prepare(self, findings: Sequence[PollResult], moved: Collection[int]) -> PreparedBatch:
        """Draws the conclusions, once for all; may be called again only after `DatabaseUnavailableError`.

        moved: ids of sites that got another URL since they were polled, looked at late.
        """
        findings, summaries = await self._described(findings)
        known = set() if self._explorer is None else await self._explorer.look_up(findings)
        current = list(compress(findings, self._still_there(findings, moved)))
        records = []
        for i, finding in enumerate(current):
            current[i], record = self._judged(finding, summaries.get(finding.site_id, ""))
            records.append(record)
        misled = [finding.slot for finding, record in zip(current, records, strict=True) if record.mask_changed]
        if misled:
            self._scheduler.learn_anew(np.array(misled, np.int64))
        explored = None
        if self._explorer is not None:
            records, explored = self._explorer.judge(current, records, known)
        records = self._learn(current, records)
        return PreparedBatch(tuple(current), self._with_learned(current, records), explored)

    def batch(self, entry: PreparedBatch, robots: dict[int, StoredRobots], *, with_shared_state: bool) -> Batch:
        """The transaction that keeps the entry, the hosts touched since the last, and now and then the shared state."""
        allocator = self._scheduler.allocator
        return Batch(
            records=entry.records,
            hosts=self._host_updates(robots),
            allocator=self._scheduler.allocator_name,
            shared_state=allocator.shared_state() if with_shared_state else None,
            findings=entry.explored,
        )

    def set_aside(self, finding: PollResult, error: Exception) -> PreparedBatch:
        """What is to be kept in place of a poll that the database refused for what stands in it."""
        aside = self._faults.set_aside(finding.slot, finding.memory, error)
        return PreparedBatch((aside,), (self._judge(aside, "").record,))

    def _still_there(self, findings: Sequence[PollResult], moved: Collection[int]) -> list[bool]:
        """Of each finding, whether its slot still holds its site, at the same URL."""
        ids = [finding.memory.site_id for finding in findings]
        held = self._scheduler.sites.site_id[np.array([finding.slot for finding in findings], np.int64)].tolist()
        return [site_id == holds and site_id not in moved for site_id, holds in zip(ids, held, strict=True)]

    def settle(self, entry: PreparedBatch, content_ids: Mapping[int, int], moved: Collection[int]) -> None:
        """What was committed becomes the present, and the sites are free for their next poll.

        content_ids: site -> id of its new content, as the database gave it. moved: as in `prepare`.
        """
        self._count(entry.records)
        there = self._still_there(entry.findings, moved)
        findings, records = list(compress(entry.findings, there)), list(compress(entry.records, there))
        if findings:
            self._settle_sites(findings, records)
        for finding, record in zip(findings, records, strict=True):
            content_id = content_ids.get(finding.memory.site_id)
            after = record.memory if content_id is None else replace(record.memory, content_id=content_id)
            self._memories.follow(finding.memory, after)
            if record.state is SiteState.ACTIVE:
                self._faults.passed(finding)
        if self._explorer is not None:
            for site_id in self._explorer.settle(records, entry.explored):
                self.on_ended(site_id)

    async def _described(self, findings: Sequence[PollResult]) -> tuple[Sequence[PollResult], dict[int, str]]:
        """The findings with noise told from news, and by site what changed, in a line."""
        changed = [i for i, finding in enumerate(findings) if _changed(finding)]
        wanted = [key for i in changed if (key := findings[i].memory.content_id) is not None]
        if not changed:
            return findings, {}
        contents = await self._store.load_contents(wanted) if wanted else {}
        out, summaries = list(findings), {}
        for i in changed:
            before = contents.get(out[i].memory.content_id or 0)
            out[i] = await self._twins.judged(out[i], before)
            if _changed(out[i]):
                summaries[out[i].site_id] = await self._summary(out[i], before)
        return out, summaries

    async def _summary(self, finding: PollResult, before: bytes | None) -> str:
        """What changed, in a line; nothing where it cannot be told."""
        detection, memory = finding.detection, finding.memory
        if detection is None or detection.content is None:
            return ""
        mask, media = detection.baseline.mask, detection.baseline.media or Media.BINARY
        size = len(before or b"") + len(detection.content)
        order = (memory.baseline.items, detection.baseline.items)
        try:
            if size < (HEAVY_UNDER_MASK_BYTES if mask else _SUMMARISED_HERE_BYTES):
                return summarise(before, detection.content, media, mask, order)
            return await self._worker_pool.do(summarise, before, detection.content, media, mask, order)
        except Exception as error:  # noqa: BLE001
            self._faults.report(memory, error)
            return ""

    def _judged(self, finding: PollResult, summary: str) -> tuple[PollResult, PollRecord]:
        """The finding with its record; a site at which judging raises is set aside."""
        try:
            return finding, self._judge(finding, summary).record
        except Exception as error:  # noqa: BLE001
            aside = self._faults.set_aside(finding.slot, finding.memory, error)
            return aside, self._judge(aside, "").record

    def _judge(self, finding: PollResult, summary: str) -> PollEffect:
        sites, hosts = self._scheduler.sites, self._scheduler.hosts
        host = self._answering_host(finding)
        standing = SiteStatus(
            failures=int(sites.failures[finding.slot]),
            last_seen_at=_finite(sites.last_seen[finding.slot]),
            host_throttles=int(hosts.throttles[host]),
        )
        judgement = judge(finding, standing, summary, self._scheduler.settings, self._rng)
        if hosts.throttles[host] != judgement.host_throttles:  # or an old refusal would count after a restart
            hosts.throttles[host], hosts.touched[host] = judgement.host_throttles, True
        if judgement.host_pause_seconds is not None:
            hosts.pause(host, self._clock() + judgement.host_pause_seconds)
        return judgement

    def _answering_host(self, finding: PollResult) -> int:
        """The slot of the host whose answer it is: the last one asked, where the poll was redirected."""
        own, outcome = int(self._scheduler.sites.host[finding.slot]), finding.outcome
        refused = outcome.status in REDIRECTS  # the hop was not taken: whoever sent us there has answered
        if not outcome.redirects or refused:
            return own
        slot = self._scheduler.hosts.slot_of(host_of(outcome.redirects[-1].url))
        return own if slot is None else slot

    def _learn(self, findings: Sequence[PollResult], records: Sequence[PollRecord]) -> list[PollRecord]:
        """Hands what the polls tell to the allocator; returns the records, with sites set aside whose lesson raises.

        Failures tell nothing, undated first polls neither. A policy looks at a batch before it learns from it, so that
        one it refuses can be taught again, poll by poll.
        """
        out = list(records)
        lessons = [i for i, pair in enumerate(zip(findings, records, strict=True)) if _tells(*pair)]
        try:
            self._teach(findings, out, lessons)
        except Exception as error:  # noqa: BLE001
            self._log.warning("batch_refused", polls=len(lessons), reason=str(error), instead="poll by poll")
            for i in lessons:
                try:
                    self._teach(findings, out, [i])
                except Exception as cause:  # noqa: BLE001
                    out[i] = self._unlearnable(findings[i], out[i], cause)
        return out

    def _teach(self, findings: Sequence[PollResult], records: Sequence[PollRecord], lessons: Sequence[int]) -> None:
        if not lessons:
            return
        told = [detection.evidence for i in lessons if (detection := findings[i].detection) is not None]
        evidence = [one for one in told if one is not None]
        gaps = [records[i].poll.elapsed for i in lessons]
        batch = EvidenceBatch(
            changed=np.array([one.changed for one in evidence], np.bool_),
            age=np.array([math.nan if one.age is None else one.age for one in evidence], np.float64),
            count=np.array([-1 if one.count is None else one.count for one in evidence], np.int64),
        )
        elapsed = np.array([math.inf if gap is None else gap for gap in gaps], np.float64)
        slots = np.array([findings[i].slot for i in lessons], np.int64)
        predicted = self._scheduler.allocator.change_probability(slots, elapsed)
        self._scheduler.observe(slots, elapsed, batch, records[-1].poll.at)
        self._calibration.note(predicted, elapsed, batch)

    def _unlearnable(self, finding: PollResult, record: PollRecord, error: Exception) -> PollRecord:
        """What was found stays; the site is left alone as after a failure, and says why."""
        aside = self._faults.set_aside(finding.slot, finding.memory, error)
        left_alone = self._judge(aside, "").record
        poll = replace(record.poll, detail=left_alone.poll.detail)
        return replace(
            record,
            poll=poll,
            state=left_alone.state,
            not_before=left_alone.not_before,
            failures=left_alone.failures,
        )

    def _with_learned(self, findings: Sequence[PollResult], records: Sequence[PollRecord]) -> tuple[PollRecord, ...]:
        """Adds the allocator's state of the sites that it has just learned from."""
        rows = [i for i, record in enumerate(records) if record.poll.outcome.informative]
        if not rows:
            return tuple(records)
        states = self._scheduler.allocator.site_state(np.array([findings[i].slot for i in rows], np.int64))
        out = list(records)
        for i, state in zip(rows, states, strict=True):
            out[i] = replace(out[i], learned=state.tobytes())
        return tuple(out)

    def _host_updates(self, robots: dict[int, StoredRobots]) -> list[HostUpdate]:
        hosts = self._scheduler.hosts
        n = hosts.size
        touched = np.flatnonzero(hosts.touched[:n] & (hosts.host_id[:n] >= 0)).tolist()
        hosts.touched[:n] = False
        return [
            HostUpdate(
                host_id=int(hosts.host_id[slot]),
                last_start_at=_finite(hosts.last_start[slot]),
                paused_until=float(hosts.paused_until[slot]) or None,
                throttles=int(hosts.throttles[slot]),
                robots=robots.get(slot),
            )
            for slot in touched
        ]

    def _settle_sites(self, findings: Sequence[PollResult], records: Sequence[PollRecord]) -> None:
        sites, slots = self._scheduler.sites, np.array([finding.slot for finding in findings], np.int64)
        told = [i for i, r in enumerate(records) if r.poll.elapsed is not None and r.poll.outcome.informative]
        sites.note_history(slots[told], np.array([_puzzling(records[i]) for i in told], np.bool_))
        sites.forget_history(slots[[i for i in told if records[i].mask_changed and not records[i].poll.changed]])
        sites.last_gap[slots[told]] = [records[i].poll.elapsed for i in told]
        sites.last_poll[slots] = [r.poll.at for r in records]
        sites.last_seen[slots] = [-math.inf if r.last_seen_at is None else r.last_seen_at for r in records]
        sites.not_before[slots] = [r.not_before or 0.0 for r in records]
        sites.failures[slots] = [r.failures for r in records]
        sites.polls[slots] += 1
        sites.changes[slots] += [r.poll.changed for r in records]
        sites.state[slots] = [STATE_CODE[r.state] for r in records]
        sites.asap[slots] = sites.in_flight[slots] = False
        sites.touch(slots)
        note_told_ttl(
            self._scheduler, slots, np.array([_told_ttl(f, r) for f, r in zip(findings, records, strict=True)])
        )
        self._private.note(slots, records)
        note_quiet(self._scheduler, slots)

    def _count(self, records: Sequence[PollRecord]) -> None:
        instruments = self._instruments
        for outcome, number in Counter(record.poll.outcome for record in records).items():
            instruments.polls[outcome].inc(number)
        instruments.response_bytes.inc(sum(record.poll.bytes for record in records))
        instruments.changes.inc(sum(record.poll.changed for record in records))
        instruments.poll_duration.observe_all([record.poll.duration for record in records])


def _changed(finding: PollResult) -> bool:
    return finding.detection is not None and finding.detection.kind is OutcomeKind.CHANGED


def _tells(finding: PollResult, record: PollRecord) -> bool:
    """Whether the poll says anything of its site's changes."""
    evidence = None if finding.detection is None else finding.detection.evidence
    return evidence is not None and (record.poll.elapsed is not None or evidence.age is not None)


def _puzzling(record: PollRecord) -> bool:
    """A change without a known reason; a feed whose new entries were told apart has one."""
    return record.poll.changed and not (record.memory.baseline.media is Media.FEED and record.poll.count)


def _told_ttl(finding: PollResult, record: PollRecord) -> float:
    """Seconds for which the page says that it need not be asked again, by its headers or as a feed; 0: it does not."""
    return max(finding.outcome.fresh_for or 0.0, record.memory.baseline.ttl or 0.0)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
