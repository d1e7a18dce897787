"""Reports of reads, and the half-lives that are learned from them and put in force."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence

from pollerd.allocation.index import DEFAULT_HALF_LIFE_S
from pollerd.allocation.reads import Read, estimate, evidence_of, take_reads
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.errors import InvalidValueError, TooManyError
from pollerd.inheritance import inherit
from pollerd.limits import REPORT_COST, LeakyBuckets
from pollerd.storage.reads import ReadReport, ReadResult, ReadRules, ReportedRead
from pollerd.storage.sites import SiteStore
from pollerd.storage.store import Store
from pollerd.texts import N_, _
from pollerd.timestamps import rfc3339

MAX_OLD_SECONDS = 30 * 86_400.0
"""Reads may be as old: it bounds how many changes of a page have to be looked at."""
CLOCKS_DIFFER_SECONDS = 60.0
"""How far a program's clock may be ahead."""
_MAX_AT_ONCE, _PER_SECOND = 5_000, 50
_NOTICEABLE = math.log(1.1)

READ_RULES = ReadRules(
    take=take_reads,
    evidence=lambda site: evidence_of(site.so_far()),
    estimate=lambda site, half_life, others: estimate(site.so_far(), half_life, others),
    moved=lambda before, now: abs(math.log(now / (before or DEFAULT_HALF_LIFE_S))) > _NOTICEABLE,
)
"""How half-lives are learned; one moves when it differs by more than a tenth from the one in force."""


class ReadControl:
    """Takes reports of reads: first in the database, then in memory."""

    def __init__(self, *, store: Store, scheduler: SchedulerState, runtime: Runtime) -> None:
        self._store, self._scheduler = store, scheduler
        self._clock, self._instruments = runtime.clock, runtime.instruments
        self._limit = LeakyBuckets(_MAX_AT_ONCE, _PER_SECOND)

    async def report(self, name: str, reads: Sequence[ReportedRead], complete_until: float | None = None) -> ReadResult:
        """Takes a report; one of the same name as another of the last two days changes nothing.

        complete_until: with it all reads of its sites until then, epoch s, are told; None: that is not known. Raises
        TooManyError before anything is looked up, InvalidValueError for times in the future or before the history.
        """
        now = self._clock()
        wait = self._limit.take(now, units=max(len(reads), REPORT_COST))
        if wait > 0:
            self._instruments.read_reports_refused.inc()
            raise TooManyError(N_("reads"), wait)
        if complete_until is not None:
            complete_until = self._within("complete_until", complete_until, now)
        times = [self._within(f"reads[{place}].at", read.at, now) for place, read in enumerate(reads)]
        of_site, unknown, half_lives = await self._by_site(reads, times)
        report = ReadReport(
            report=name, reads=of_site, given=half_lives, complete_until=complete_until, unknown_sites=unknown
        )
        result = await self._store.reads.take(report, READ_RULES, now)
        if not result.repeated:
            counts = result.counts
            ignored = result.unknown_sites + counts.before_changes + counts.other_changes + counts.between_polls
            self._instruments.reads["taken"].inc(counts.taken)
            self._instruments.reads["ignored"].inc(ignored)
            self._scheduler.learn_half_lives(result.half_lives)
        return result

    async def forget(self, site_id: int) -> None:
        """Forgets the reads of a site's changes; what was learned from them no longer holds. Raises NotFoundError."""
        await self._store.reads.forget(site_id)
        self._scheduler.learn_half_lives({site_id: math.nan})

    async def adopt(self, site_ids: Collection[int] | None) -> None:
        """Puts in force what any node learned of these sites; None: of all. Raises DatabaseUnavailableError."""
        sites = self._scheduler.sites
        ids = sites.site_id[: sites.size][sites.occupied()].tolist() if site_ids is None else list(site_ids)
        stored = await self._store.reads.half_lives(ids)
        self._scheduler.learn_half_lives({site_id: stored.get(site_id, math.nan) for site_id in ids})

    def _within(self, field: str, at: float, now: float) -> float:
        """Returns a time of a report, at most now. Raises InvalidValueError."""
        kept = self._store.change_retention_seconds
        earliest = now - (MAX_OLD_SECONDS if kept is None else min(kept, MAX_OLD_SECONDS))
        if not earliest <= at <= now + CLOCKS_DIFFER_SECONDS:
            allowed = _(
                "from {rfc3339}, where the history begins, to now, {rfc3339_2}",
                rfc3339=rfc3339(earliest),
                rfc3339_2=rfc3339(now),
            )
            raise InvalidValueError(field, allowed, rfc3339(at))
        return min(at, now)

    async def _by_site(
        self, reads: Sequence[ReportedRead], times: Sequence[float]
    ) -> tuple[dict[int, list[Read]], int, dict[int, float | None]]:
        """Returns the reads of each site by its id, how many are of no site, and the half-lives that users gave."""
        store: SiteStore = self._store.sites
        ids = {read.site_id for read in reads if read.site_id is not None}
        at_url = await store.at(sorted({read.url for read in reads if read.url is not None}))
        sites = {site.id: site for site in (*await store.get_many(sorted(ids)), *at_url.values())}
        by_site: defaultdict[int, list[Read]] = defaultdict(list)
        unknown = 0
        for site_read, at in zip(reads, times, strict=True):
            site = at_url.get(site_read.url) if site_read.url is not None else sites.get(site_read.site_id or 0)
            if site is None:
                unknown += site_read.count
            else:
                by_site[site.id].append(Read(at, site_read.count, site_read.change_id))
        half_lives = {site_id: inherit(sites[site_id].spec, store.tags.in_force).half_life for site_id in by_site}
        return dict(by_site), unknown, half_lives
