"""Half-lives of interest, estimated from reads of changes (Bayesian), with the sites of one host pooled in part.

x = log μ of a site is normal around the mean of its host, which is normal around log μ of the default half-life:

    x_i ~ N(m_h, WITHIN_HOST²),    m_h ~ N(log(ln 2 / default), BETWEEN_HOSTS²)

The posterior of a site is computed on a grid of x, with the exact likelihood of its reads (`ReadStatistics`) and, as
its prior, the evidence of the *other* sites of the host on the host's mean. For that each site's likelihood is summed
up as a normal one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.index import DEFAULT_HALF_LIFE_S
from pollerd.errors import InvalidValueError

# Sufficient statistics of the reads of one site's changes, for the rate μ at which interest decays.
#
# Reads of a change at age a come at a rate proportional to e^(-μ a), while the change is exposed: from its publication
# until the page's next change, T seconds. Given how many came, their ages are independent with the density
# μ e^(-μ a) / (1 - e^(-μ T)) on 0 to T: how popular a change is drops out. So the log-likelihood of all is
#
#     ℓ(μ) = N log μ - μ S - Σ n_j log(1 - e^(-μ T_j)),    N = Σ n_j,    S = Σ ages
#
# and needs of n_j reads of change j only their number, the sum of their ages, and T_j. Exposures are kept as a
# histogram over log T, each shared by the two nearest places: with a step of .35 the error of a read's term is below
# .007.

_STEP = 0.35
"""Distance of neighbouring exposures in log s."""
EXPOSURES: NDArray[np.float64] = np.exp(_STEP * np.arange(60))
"""Exposures of the histogram, float64[60] in s, from 1 s to 29 years."""
MAX_OF_CHANGE = 20.0
"""As so many reads count those of one change at most: they share what made it interesting, and are not independent."""
KEPT_SHARE = 0.95
"""Share of the statistics that stays when another change is added: about the last 20 changes that were read count."""
_VERSION = 1
_STORED = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class ReadStatistics:
    """ages: Σ of the ages, weighted, s. reads: weighted reads by exposure, float64[60]."""

    ages: float = 0.0
    reads: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(EXPOSURES)))

    def with_reads(self, number: float, ages: float, exposure: float) -> ReadStatistics:
        """Returns these with so many reads more of one change: number > 0, sum of ages >= 0 in s, exposure > 0 in s."""
        weight = min(1.0, MAX_OF_CHANGE / number)
        place = min(max(float(np.log(max(exposure, 1.0))) / _STEP, 0.0), len(EXPOSURES) - 1.0)
        low = min(int(place), len(EXPOSURES) - 2)
        reads = self.reads.copy()
        reads[low] += weight * number * (low + 1 - place)
        reads[low + 1] += weight * number * (place - low)
        return ReadStatistics(self.ages + weight * min(ages, number * max(exposure, 1.0)), reads)

    def faded(self) -> ReadStatistics:
        """Returns these as they count when another change follows: interest may decay otherwise by now."""
        return ReadStatistics(self.ages * KEPT_SHARE, self.reads * KEPT_SHARE)

    def to_bytes(self) -> bytes:
        """Returns them for storage, 245 bytes."""
        values = np.concatenate([[self.ages], self.reads]).astype(_STORED)
        return bytes([_VERSION]) + values.tobytes()

    @classmethod
    def from_bytes(cls, stored: bytes) -> ReadStatistics:
        """Returns stored statistics. Raises `InvalidValueError` for bytes of another version, or damaged ones."""
        fits = len(stored) == 1 + (1 + len(EXPOSURES)) * _STORED.itemsize and stored[0] == _VERSION
        values = np.frombuffer(stored[1:], _STORED).astype(np.float64) if fits else np.full(1, np.nan)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise InvalidValueError("statistics", "reads as this version stores them", f"{len(stored)} bytes")
        return cls(float(values[0]), values[1:])


WITHIN_HOST = 0.5
"""Spread of log μ among the sites of a host: as much as four reads say of it."""
BETWEEN_HOSTS = 1.5
"""Spread of hosts' mean log μ: as much as half a read says of it."""
_LN2 = math.log(2.0)
_GRID: NDArray[np.float64] = np.arange(math.log(_LN2 / 1e9), math.log(_LN2), 0.1)
"""Values of log μ, float64[208]: half-lives from 1 s to 1e9 s."""
_MU = np.exp(_GRID)
_LOG_SEEN = np.log(-np.expm1(-_MU[:, None] * EXPOSURES[None, :]))
"""log(1 - e^(-μ T)), float64[208, 60]: the logarithm of the share of a change's reads that its exposure shows."""
_REFERENCE_SPREAD = 3.0
"""Of the wide prior under which likelihoods are summed up: its share is taken out again."""
_LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class HalfLife:
    """Half-life of interest in s: the estimate, and its central 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """What sites say of the mean log μ of their host: precision, and precision times mean. Those of sites add up."""

    precision: float = 0.0
    weighted: float = 0.0

    def without(self, other: HostEvidence) -> HostEvidence:
        """Returns the evidence of all but one of the sites."""
        return HostEvidence(max(self.precision - other.precision, 0.0), self.weighted - other.weighted)


NO_EVIDENCE = HostEvidence()


def evidence_of(statistics: ReadStatistics) -> HostEvidence:
    """Returns what a site's reads say of its host's mean; nothing without reads."""
    centre = _log_rate(DEFAULT_HALF_LIFE_S)
    shares = _posterior(statistics, centre, _REFERENCE_SPREAD**2)
    mean = float(shares @ _GRID)
    variance = float(shares @ (_GRID - mean) ** 2)
    precision = 1.0 / variance - 1.0 / _REFERENCE_SPREAD**2
    if precision <= 1e-6 or not statistics.reads.any():
        return NO_EVIDENCE
    weighted = mean / variance - centre / _REFERENCE_SPREAD**2
    spread = 1.0 + WITHIN_HOST**2 * precision
    return HostEvidence(precision / spread, weighted / spread)


def estimate(
    statistics: ReadStatistics, half_life: float | None = None, others: HostEvidence = NO_EVIDENCE
) -> HalfLife:
    """Returns the half-life of a site.

    half_life: that the user gave, s > 0; the prior is around it, then, and the host is not asked. None: the
    default. others: evidence of the other sites of its host.
    """
    if half_life is not None:
        centre, variance = _log_rate(half_life), WITHIN_HOST**2 + BETWEEN_HOSTS**2
    else:
        precision = 1.0 / BETWEEN_HOSTS**2 + others.precision
        centre = (_log_rate(DEFAULT_HALF_LIFE_S) / BETWEEN_HOSTS**2 + others.weighted) / precision
        variance = WITHIN_HOST**2 + 1.0 / precision
    shares = _posterior(statistics, centre, variance)
    below = np.cumsum(shares)
    tail = (1.0 - _LEVEL) / 2
    slow, fast = np.interp([tail, 1.0 - tail], below - shares / 2, _GRID)
    return HalfLife(_half_life(float(shares @ _GRID)), _half_life(float(fast)), _half_life(float(slow)))


def _posterior(statistics: ReadStatistics, centre: float, variance: float) -> NDArray[np.float64]:
    """Returns the posterior shares of the grid, float64[208], under a normal prior of log μ."""
    likelihood = statistics.reads.sum() * _GRID - _MU * statistics.ages - _LOG_SEEN @ statistics.reads
    logarithm = likelihood - (_GRID - centre) ** 2 / (2.0 * variance)
    shares = np.exp(logarithm - logarithm.max())
    return np.asarray(shares / shares.sum())


def _log_rate(half_life: float) -> float:
    return math.log(_LN2 / half_life)


def _half_life(log_rate: float) -> float:
    return _LN2 / math.exp(log_rate)


# Attribution of reads: a read is of the newest change that was published before it, or of the one that it names.
#
# A read that names its change is of that change, until the next one is published. Another may be of a change that no
# poll has found yet: it counts only up to the last poll that saw the page without the next change. Until then it waits.

CLOCKS_DIFFER_S = 60.0
"""How far a program's clock may be behind, or its times rounded: so much earlier a named change may have been read."""


@dataclass(frozen=True, slots=True)
class Read:
    """So many reads of a change at one time, epoch s. change_id: of which; None: of the newest one then."""

    at: float
    count: int = 1
    change_id: int | None = None


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """A change of the page.

    published_at: as it is dated, else as it was detected, epoch s. unseen_from: from then on, epoch s, reads may be of
    it: the last poll before it, or its date; None: `published_at`.
    """

    id: int
    published_at: float
    unseen_from: float | None = None


@dataclass(frozen=True, slots=True)
class ChangeReads:
    """Reads of one change: how many, the sum of their ages and the age of the latest, s."""

    number: int = 0
    ages: float = 0.0
    longest: float = 0.0

    def __add__(self, other: ChangeReads) -> ChangeReads:
        return ChangeReads(self.number + other.number, self.ages + other.ages, max(self.longest, other.longest))

    def within(self, statistics: ReadStatistics, exposure: float) -> ReadStatistics:
        """Returns the statistics with these reads of a change that was exposed so long, s."""
        exposure = max(exposure, self.longest)
        return statistics.with_reads(self.number, self.ages, exposure) if self.number and exposure > 0 else statistics

    def so_far(self, statistics: ReadStatistics, complete_until: float) -> ReadStatistics:
        """Returns the statistics with these reads of a change that is exposed still.

        The exposure ends, for now, at the age up to which all reads were reported; if that is not known at the latest
        read, which does not count then: given when that was, the others' ages are independent on the time before.
        """
        if complete_until > self.longest:
            return self.within(statistics, complete_until)
        if self.number < 2 or self.longest <= 0:
            return statistics
        return statistics.with_reads(self.number - 1, max(self.ages - self.longest, 0.0), self.longest)


NO_READS = ChangeReads()


@dataclass(frozen=True, slots=True)
class OpenChange:
    """The page's newest change that was read: how long it will be exposed is not known yet."""

    id: int
    published_at: float
    named: ChangeReads = NO_READS
    """Reads that name it."""
    seen: ChangeReads = NO_READS
    """Others, up to the last poll that saw the page."""
    waiting: ChangeReads = NO_READS
    """Others after that: they may be of a change that was not found yet."""
    complete_until: float = 0.0
    """Age up to which all reads were reported, s; 0: no report said so."""
    seen_complete_until: float = 0.0
    """The same, not after the last poll then."""


@dataclass(frozen=True, slots=True)
class SiteReads:
    """All that is kept of the reads of one site's changes."""

    statistics: ReadStatistics = field(default_factory=ReadStatistics)
    """Of changes that another one has followed."""
    open: OpenChange | None = None
    reads: int = 0
    """Since the first; of these some are forgotten."""
    changes: int = 0
    """Changes that were read."""
    newest: int = 0
    """Largest id of a change that was read."""
    last_read_at: float | None = None
    """Time of the latest read, epoch s."""

    def so_far(self) -> ReadStatistics:
        """Returns the statistics with the reads of the open change, but for those that wait."""
        change = self.open
        if change is None:
            return self.statistics
        return change.seen.so_far(
            change.named.so_far(self.statistics, change.complete_until), change.seen_complete_until
        )


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """What became of reads, by their counts."""

    taken: int = 0
    before_changes: int = 0
    """No change was published before them."""
    other_changes: int = 0
    """They name a change that is none of the site, was not published yet, or that another one had followed."""
    between_polls: int = 0
    """They name no change, and came between the last poll before a change and the one that found it."""

    def __add__(self, other: ReadCounts) -> ReadCounts:
        return ReadCounts(
            self.taken + other.taken,
            self.before_changes + other.before_changes,
            self.other_changes + other.other_changes,
            self.between_polls + other.between_polls,
        )


@dataclass(frozen=True, slots=True)
class _Moments:
    """The times of publication of a page's changes, ascending, with the id of each and what follows it."""

    times: list[float]
    time_of: dict[int, float]
    id_at: dict[float, int]
    after: dict[float, float]
    """Time of publication -> that of the next change; none of the last."""
    unseen_after: dict[float, float]
    """The same -> from when on reads that name no change may be of the next one."""

    @classmethod
    def of(cls, changes: Sequence[PublishedChange]) -> _Moments:
        times = sorted({change.published_at for change in changes})
        unseen: dict[float, float] = {}
        for change in changes:
            begins = change.published_at if change.unseen_from is None else change.unseen_from
            unseen[change.published_at] = min(unseen.get(change.published_at, math.inf), begins)
        return cls(
            times,
            {change.id: change.published_at for change in changes},
            {change.published_at: change.id for change in sorted(changes, key=lambda change: change.id)},
            dict(pairwise(times)),
            {before: max(unseen[then], before) for before, then in pairwise(times)},
        )

    def read_by(self, read: Read) -> float | None:
        """Returns when the change was published that was read; None: there is none."""
        if read.change_id is None:
            place = bisect_right(self.times, read.at)
            return self.times[place - 1] if place else None
        begun = self.time_of.get(read.change_id)
        if begun is None or not begun - CLOCKS_DIFFER_S <= read.at < self.after.get(begun, math.inf):
            return None
        return begun


def take_reads(
    site: SiteReads,
    changes: Sequence[PublishedChange],
    reads: Sequence[Read],
    complete_until: float | None = None,
    seen_until: float = math.inf,
) -> tuple[SiteReads, ReadCounts]:
    """Returns what is kept of a site after these reads, and what became of them.

    changes: of the site, in order of publication and of their ids: the open one and the one after it, those before and
    after each read, and those that are named. Changes of one time, of several selections, are one.
    complete_until: with these all reads of its changes until then, epoch s, were reported; None: that is not known.
    seen_until: the last poll that saw the page, epoch s; inf: every change is known at once.
    """
    moments, counts = _Moments.of(changes), ReadCounts()
    fresh: defaultdict[float, OpenChange] = defaultdict(lambda: OpenChange(0, 0.0))
    for read in reads:
        begun = moments.read_by(read)
        if begun is None:
            missed = "before_changes" if read.change_id is None else "other_changes"
            counts += ReadCounts(**{missed: read.count})
        elif read.change_id is None and read.at > moments.unseen_after.get(begun, math.inf):
            counts += ReadCounts(between_polls=read.count)
        else:
            counts += ReadCounts(taken=read.count)
            kind = "named" if read.change_id is not None else "seen"
            if kind == "seen" and begun not in moments.after and read.at > seen_until:
                kind = "waiting"
            age = max(read.at - begun, 0.0)
            held = fresh[begun]
            fresh[begun] = replace(held, **{kind: getattr(held, kind) + ChangeReads(read.count, read.count * age, age)})
            site = replace(site, last_read_at=max(read.at, site.last_read_at or read.at))
    if site.open is not None:
        begun = moments.time_of.get(site.open.id, site.open.published_at)
        site = _looked_at_again(site, site.open, begun, moments, seen_until)
    for begun in sorted(fresh):
        site = _with(site, replace(fresh[begun], id=moments.id_at[begun], published_at=begun), moments)
    if site.open is not None and complete_until is not None:
        site = replace(site, open=_complete(site.open, complete_until, seen_until))
    return replace(site, reads=site.reads + counts.taken), counts


def _looked_at_again(
    site: SiteReads, change: OpenChange, begun: float, moments: _Moments, seen_until: float
) -> SiteReads:
    """Returns the site as polls since then leave it: reads waited for them, and another change may have followed."""
    known_until = moments.unseen_after.get(begun, seen_until) - change.published_at
    if change.waiting.number and change.waiting.longest <= known_until:
        change = replace(change, seen=change.seen + change.waiting, waiting=NO_READS)
    if begun not in moments.after:
        return replace(site, open=change)
    return replace(site, statistics=_closed(site.statistics.faded(), change, begun, moments), open=None)


def _closed(statistics: ReadStatistics, change: OpenChange, begun: float, moments: _Moments) -> ReadStatistics:
    """Returns the statistics with the reads of a change that another one has followed; reads that wait are dropped."""
    statistics = change.named.within(statistics, moments.after[begun] - begun)
    return change.seen.within(statistics, moments.unseen_after[begun] - begun)


def _with(site: SiteReads, change: OpenChange, moments: _Moments) -> SiteReads:
    """Returns the site with these reads of one change."""
    is_new = change.id > site.newest
    held = site.open
    if change.published_at in moments.after:
        statistics = site.statistics.faded() if is_new else site.statistics
        site = replace(site, statistics=_closed(statistics, change, change.published_at, moments))
    elif held is not None and held.published_at == change.published_at:
        joined = {name: getattr(held, name) + getattr(change, name) for name in ("named", "seen", "waiting")}
        site = replace(site, open=replace(held, id=change.id, **joined))
    else:
        site = replace(site, open=change)
    return replace(site, changes=site.changes + is_new, newest=max(site.newest, change.id))


def _complete(change: OpenChange, until: float, seen_until: float) -> OpenChange:
    """Returns the open change, all of whose reads until then, epoch s, were reported."""
    age, seen = until - change.published_at, min(until, seen_until) - change.published_at
    return replace(
        change,
        complete_until=max(age, change.complete_until),
        seen_complete_until=max(seen, change.seen_complete_until),
    )
