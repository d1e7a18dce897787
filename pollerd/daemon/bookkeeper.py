"""What a batch of findings means for the tables, the allocator, the database and the metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pollerd.allocation import EvidenceBatch
from pollerd.daemon.finding import Finding
from pollerd.daemon.fleet import Fleet
from pollerd.daemon.judge import Judgement, Standing, judge
from pollerd.daemon.memories import Memories
from pollerd.detection import summarise
from pollerd.fetching import host_of
from pollerd.model import Media, OutcomeKind
from pollerd.storage import Batch, HostRobots, HostUpdate, PollRecord, Store
from pollerd.telemetry import Instruments

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class Entry:
    """Findings with their records, row by row: what one transaction is to keep."""

    findings: tuple[Finding, ...]
    records: tuple[PollRecord, ...]


class Bookkeeper:
    """Judges findings, teaches the allocator, and after the commit brings the tables up to date."""

    def __init__(
        self,
        fleet: Fleet,
        store: Store,
        memories: Memories,
        instruments: Instruments,
        rng: np.random.Generator,
        clock: Callable[[], float],
    ) -> None:
        self._fleet, self._store, self._memories = fleet, store, memories
        self._instruments, self._rng, self._clock = instruments, rng, clock

    async def prepare(self, findings: Sequence[Finding], moved: Collection[int]) -> Entry:
        """Draws the conclusions, once for all; may be called again only after `DatabaseUnavailableError`.

        moved: ids of sites that got another URL since they were polled, looked at late.
        """
        changed = [f for f in findings if f.detection is not None and f.detection.kind is OutcomeKind.CHANGED]
        wanted = [f.memory.content_id for f in changed if f.memory.content_id is not None]
        before = await self._store.load_contents(wanted) if wanted else {}
        current = tuple(f for f in findings if self._still_there(f, moved))
        records = [self._judge(finding, before).record for finding in current]
        self._learn(current, records)
        return Entry(current, self._with_learned(current, records))

    def batch(self, entry: Entry, robots: dict[int, HostRobots], *, with_shared_state: bool) -> Batch:
        """The transaction that keeps the entry, the hosts touched since the last, and now and then the shared state."""
        allocator = self._fleet.allocator
        return Batch(
            records=entry.records,
            hosts=self._host_updates(robots),
            allocator=self._fleet.allocator_name,
            shared_state=allocator.shared_state() if with_shared_state else None,
        )

    def _still_there(self, finding: Finding, moved: Collection[int]) -> bool:
        return self._fleet.sites.site_id[finding.slot] == finding.site_id and finding.site_id not in moved

    def settle(self, entry: Entry, content_ids: Mapping[int, int], moved: Collection[int]) -> None:
        """What was committed becomes the present, and the sites are free for their next poll.

        content_ids: site -> id of its new content, as the database gave it. moved: as in `prepare`.
        """
        self._count(entry.records)
        for finding, record in zip(entry.findings, entry.records, strict=True):
            if self._still_there(finding, moved):
                self._settle_site(finding, record, content_ids.get(finding.site_id))

    def _judge(self, finding: Finding, before: dict[int, bytes]) -> Judgement:
        sites, hosts = self._fleet.sites, self._fleet.hosts
        host = self._answering_host(finding)
        standing = Standing(
            failures=int(sites.failures[finding.slot]),
            last_seen_at=_finite(sites.last_seen[finding.slot]),
            host_throttles=int(hosts.throttles[host]),
        )
        judgement = judge(finding, standing, _summary(finding, before), self._fleet.settings, self._rng)
        hosts.throttles[host] = judgement.host_throttles
        if judgement.host_pause_seconds is not None:
            hosts.pause(host, self._clock() + judgement.host_pause_seconds)
        return judgement

    def _answering_host(self, finding: Finding) -> int:
        """The slot of the host whose answer it is: the last one asked, where the poll was redirected."""
        own, outcome = int(self._fleet.sites.host[finding.slot]), finding.outcome
        refused = outcome.status in _REDIRECTS  # the hop was not taken: whoever sent us there has answered
        if not outcome.redirects or refused:
            return own
        slot = self._fleet.hosts.slot_of(host_of(outcome.redirects[-1].url))
        return own if slot is None else slot

    def _learn(self, findings: Sequence[Finding], records: Sequence[PollRecord]) -> None:
        """Hands what the polls tell to the allocator. Failures tell nothing, undated first polls neither."""
        slots, elapsed, changed, age, count = [], [], [], [], []
        for finding, record in zip(findings, records, strict=True):
            evidence = finding.detection.evidence if finding.detection is not None else None
            if evidence is None or (record.poll.elapsed is None and evidence.age is None):
                continue
            slots.append(finding.slot)
            elapsed.append(math.inf if record.poll.elapsed is None else record.poll.elapsed)
            changed.append(evidence.changed)
            age.append(math.nan if evidence.age is None else evidence.age)
            count.append(-1 if evidence.count is None else evidence.count)
        if slots:
            batch = EvidenceBatch(
                changed=np.array(changed, np.bool_),
                age=np.array(age, np.float64),
                count=np.array(count, np.int64),
            )
            gaps = np.array(elapsed, np.float64)
            self._fleet.allocator.observe(np.array(slots, np.int64), gaps, batch, records[-1].poll.at)

    def _with_learned(self, findings: Sequence[Finding], records: Sequence[PollRecord]) -> tuple[PollRecord, ...]:
        """Adds the allocator's state of the sites that it has just learned from."""
        rows = [i for i, record in enumerate(records) if record.poll.outcome.informative]
        if not rows:
            return tuple(records)
        states = self._fleet.allocator.site_state(np.array([findings[i].slot for i in rows], np.int64))
        out = list(records)
        for i, state in zip(rows, states, strict=True):
            out[i] = replace(out[i], learned=state.tobytes())
        return tuple(out)

    def _host_updates(self, robots: dict[int, HostRobots]) -> list[HostUpdate]:
        hosts = self._fleet.hosts
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

    def _settle_site(self, finding: Finding, record: PollRecord, content_id: int | None) -> None:
        sites, slot, poll = self._fleet.sites, finding.slot, record.poll
        if poll.elapsed is not None and poll.outcome.informative:
            sites.note_history(slot, poll.changed and not _understood(record))
            sites.last_gap[slot] = poll.elapsed
        sites.last_poll[slot] = poll.at
        sites.last_seen[slot] = -math.inf if record.last_seen_at is None else record.last_seen_at
        sites.not_before[slot] = record.not_before or 0.0
        sites.failures[slot] = record.failures
        sites.polls[slot] += 1
        sites.changes[slot] += poll.changed
        self._fleet.set_state(slot, record.state)
        sites.asap[slot] = False
        sites.in_flight[slot] = False
        after = record.memory if content_id is None else replace(record.memory, content_id=content_id)
        self._memories.follow(finding.memory, after)

    def _count(self, records: Sequence[PollRecord]) -> None:
        instruments = self._instruments
        for outcome, number in Counter(record.poll.outcome for record in records).items():
            instruments.polls[outcome].inc(number)
        instruments.response_bytes.inc(sum(record.poll.bytes for record in records))
        instruments.changes.inc(sum(record.poll.changed for record in records))
        for record in records:
            instruments.poll_duration.observe(record.poll.duration)


def _understood(record: PollRecord) -> bool:
    """A feed whose new entries were told apart changes for a known reason."""
    return record.memory.baseline.media is Media.FEED and bool(record.poll.count)


def _summary(finding: Finding, before: dict[int, bytes]) -> str:
    detection = finding.detection
    if detection is None or detection.kind is not OutcomeKind.CHANGED or detection.content is None:
        return ""
    known = None if finding.memory.content_id is None else before.get(finding.memory.content_id)
    return summarise(known, detection.content, detection.baseline.media or Media.BINARY)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
