"""Values of reads of changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pollerd.allocation.reads.half_life import HalfLife, HostEvidence
from pollerd.allocation.reads.read_changes import PublishedChange, Read, ReadCounts, SiteReads


@dataclass(frozen=True, kw_only=True)
class ReadRules:
    """The formulas of `allocation.reads`, which are evaluated between reading and writing the rows."""

    take: Callable[
        [SiteReads, Sequence[PublishedChange], Sequence[Read], float | None, float], tuple[SiteReads, ReadCounts]
    ]
    """As `take_reads`."""
    evidence: Callable[[SiteReads], HostEvidence]
    """What a site's reads say of its host."""
    estimate: Callable[[SiteReads, float | None, HostEvidence], HalfLife]
    """From a site's reads, the half-life that its user gave, and the evidence of the other sites of its host."""
    moved: Callable[[float | None, float], bool]
    """Whether a half-life differs noticeably from the one in force, None: the default, so that it takes its place."""


@dataclass(frozen=True, slots=True)
class ReportedRead:
    """Reads of a change, as a program reports them: of a site by its id, or by its URL, normalised."""

    at: float
    """Epoch s."""
    count: int = 1
    site_id: int | None = None
    url: str | None = None
    change_id: int | None = None
    """None: the newest that was published then."""


@dataclass(frozen=True, kw_only=True)
class ReadReport:
    """A report of reads, checked."""

    report: str
    """Names it: a report of the same name is not taken twice."""
    reads: Mapping[int, Sequence[Read]]
    """Site id -> reads of its changes."""
    given: Mapping[int, float | None]
    """Site id -> the half-life that a user gave; None: none."""
    complete_until: float | None = None
    """All reads of these sites until then, epoch s, are told; None: that is not known."""
    unknown_sites: int = 0
    """Reads of URLs and ids that are no sites."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What became of a report, in reads."""

    counts: ReadCounts
    unknown_sites: int
    repeated: bool = False
    """It was taken before: nothing changed."""
    half_lives: Mapping[int, float] = field(default_factory=dict)
    """Site id -> learned half-life, s, of sites for which it moved noticeably."""


@dataclass(frozen=True, slots=True)
class SiteInterest:
    """What is known of the reads of one site's changes."""

    reads: int
    changes: int
    """Changes that were read."""
    last_read_at: float | None
    half_life: HalfLife | None
    """As of the last report."""
    in_force: float | None
    """The learned half-life, s, by which it is polled where none is given; None: it does not differ enough."""
