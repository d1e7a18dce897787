"""The values that go into storage and come out of it. Times are epoch seconds, durations seconds."""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypedDict, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError
from pollerd.model import (
    NO_ACCESS,
    Access,
    Baseline,
    HostOverride,
    Media,
    OutcomeKind,
    Poll,
    SiteSpec,
    SiteState,
    Validators,
    differing,
)
from pollerd.storage.page_values import CrawlUpdate, PageRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScheduleRows:
    """All sites as columns of one length n, ordered by id: what the scheduler starts from. nan: unknown."""

    site_id: NDArray[np.int64]
    host_id: NDArray[np.int64]
    paused: NDArray[np.bool_]
    state: NDArray[np.int8]
    """Indices into `STATES`; being paused is a column of its own."""
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    min_interval: NDArray[np.float64]
    max_interval: NDArray[np.float64]
    min_yield: NDArray[np.float64]
    respect_ttl: NDArray[np.float64]
    """1: yes, 0: no."""
    half_life: NDArray[np.float64]
    last_poll_at: NDArray[np.float64]
    last_seen_at: NDArray[np.float64]
    """Last informative poll."""
    not_before: NDArray[np.float64]
    failures: NDArray[np.int64]
    polls: NDArray[np.int64]
    changes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.site_id)


_NO_VALIDATORS = Validators()
_NO_BASELINE = Baseline()


class SiteContext(Struct, frozen=True, gc=False):
    """What a poll needs of its site, and what it leaves behind for the next.

    In a `PollRecord`, `content_id`, `last_outcome`, `settings_changed_at` and `access` are not read: the first follows
    from the record's content, the second from its poll, the others are the user's.
    """

    site_id: int
    url: str
    validators: Validators = _NO_VALIDATORS
    baseline: Baseline = _NO_BASELINE
    polls_since_full: int = 0
    content_id: int | None = None
    content_type: str | None = None
    redirect_url: str | None = None
    redirect_count: int = 0
    settings_changed_at: float | None = None
    last_outcome: OutcomeKind | None = None
    access: Access = NO_ACCESS
    fault: str = ""
    """Why the site cannot be polled as it stands in the database; then only id and URL are as stored."""


class ChangeDraft(Struct, frozen=True, gc=False):
    """A change found, before it has an id. Its contents follow from the record it stands in."""

    kind: Media
    summary: str
    previous_poll_at: float | None


class PollRecord(Struct, frozen=True, gc=False):
    """One poll with everything that follows from it; kept whole or not at all.

    A record whose site was deleted, or got another URL than `context.url`, is skipped.
    """

    poll: Poll
    context: SiteContext
    """The site's memory after this poll."""
    state: SiteState
    """Any but `PAUSED`, which only the user sets."""
    not_before: float | None = None
    failures: int = 0
    """Failures in a row, this poll included."""
    last_seen_at: float | None = None
    """Last informative poll, this one included."""
    content: bytes | None = None
    """New normalised content; its fingerprint and media are those of `context.baseline`."""
    change: ChangeDraft | None = None
    learned: bytes | None = None
    """The allocator's state of this site, for `Batch.allocator`."""
    mask_changed: bool = False
    """Whether `context.baseline.mask` is new with this poll: what polls before it said of changes may be noise."""
    page: PageRecord | None = None
    """What became of the focused crawler's page, where the site is one."""


@dataclass(frozen=True, slots=True)
class StoredRobots:
    """What a host's robots.txt came to. `kind` is the caller's word, `body` the text as fetched."""

    kind: str
    at: float
    body: bytes | None = None
    detail: str = ""
    crawl_delay: float | None = None


@dataclass(frozen=True, slots=True)
class HostUpdate:
    """A host's politeness state to keep; `robots` None leaves what is kept of robots.txt."""

    host_id: int
    last_start_at: float | None
    paused_until: float | None = None
    throttles: int = 0
    """Throttled answers in a row."""
    robots: StoredRobots | None = None


class HostRow(Struct, frozen=True, gc=False):
    """A host as kept. `name` is "host:port"."""

    id: int
    name: str
    last_start_at: float | None = None
    paused_until: float | None = None
    throttles: int = 0
    robots: StoredRobots | None = None
    override: HostOverride | None = None


@dataclass(frozen=True, slots=True)
class KnownHost:
    """What of a host stands in a list of hosts; all else the running daemon knows better."""

    id: int
    name: str
    robots_detail: str
    """One line for a person: why the last robots.txt was none."""


def _new_batch_id() -> bytes:
    return uuid.uuid4().bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction keeps. Its id makes repeating it harmless: a batch that went in is not counted again."""

    records: Sequence[PollRecord] = ()
    hosts: Sequence[HostUpdate] = ()
    allocator: str | None = None
    """Whose the learned states are; required where a record has `learned` or `shared_state` is given."""
    shared_state: bytes | None = None
    findings: CrawlUpdate | None = None
    """What else the batch brings to the focused crawler's collection; required where a record has a `page`."""
    id: bytes = field(default_factory=_new_batch_id)


@dataclass(frozen=True, slots=True)
class CommittedChange:
    """A change that was kept, by its id, and the index of its record in the batch."""

    id: int
    site_id: int
    record: int


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What a commit kept."""

    changes: tuple[CommittedChange, ...] = ()
    skipped: int = 0
    """Records of sites that were deleted, or moved to another URL, meanwhile."""
    content_ids: Mapping[int, int] = field(default_factory=dict)
    """Site -> its current content, for the sites that got one."""
    stale_pages: tuple[int, ...] = ()
    """Ids of pages on the frontier whose values no longer follow from what is known around them."""


@dataclass(frozen=True, slots=True)
class AllocationRow:
    """The allocator in charge. `shared_state` is its own versioned bytes."""

    allocator: str
    objective: str
    budget: float
    shared_state: bytes | None = None
    learned_through: int | None = None
    """Id of the last poll that `shared_state` has learned from. Storage sets it: the last poll there is."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What the daemon run before this one left."""

    run_id: int
    previous_clean: bool
    """True after a clean stop, and at the very first start."""
    previous_stopped_at: float | None
    """When that was (epoch s); None: it was not clean, or there was none before."""


@dataclass(frozen=True, slots=True)
class AddResult:
    """What became of every spec of an import, by its index; each index stands in exactly one list."""

    added: list[tuple[int, int, int]]
    """(site id, index, host id)"""
    existing: list[tuple[int, int]]
    """(site id, index)"""
    deleted: list[int]
    """Indices of URLs that a user deleted and that are therefore left out."""
    refused: list[tuple[int, InvalidValueError]] = field(default_factory=list)
    """(index, why) of sites that the allocator in charge cannot hold."""


@dataclass(frozen=True, slots=True)
class NewSettings:
    """What a site's settings become: all of them are `spec`'s."""

    site_id: int
    spec: SiteSpec
    resumed: bool
    """It was paused, and is to be polled again: as a site that is resumed by hand, it starts anew."""


@dataclass(frozen=True, slots=True)
class SettingsResult:
    """What became of the specs that sites were to follow, by their index; those that said nothing new are in none."""

    changed: list[tuple[int, int]]
    """(site id, index)"""
    refused: list[tuple[int, InvalidValueError]]
    """(index, why) of settings that the allocator in charge cannot hold."""


@dataclass(frozen=True, slots=True)
class SiteRestore:
    """A site as an export tells of it."""

    spec: SiteSpec
    keeps_access: bool = False
    """Its secrets were left out: those of a site that is there stay."""

    def over(self, before: SiteSpec) -> SiteSpec:
        """What the site becomes that is `before`."""
        return replace(self.spec, access=before.access) if self.keeps_access else self.spec

    def changes(self, before: SiteSpec) -> bool:
        """Whether that is anything else."""
        return bool(differing(before, self.over(before)))


@dataclass(slots=True)
class RestoreResult:
    """What became of the sites of an export."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    touched: array[int] = field(default_factory=lambda: array("q"))
    """The ids of those that were added or changed."""


class SiteChanges(TypedDict, total=False):
    """New values for a site; a key left out stays. `host` goes with `url`."""

    url: str
    host: str
    weight: float
    cost: float
    tags: Sequence[str]
    min_interval: float | None
    max_interval: float | None
    min_yield: float | None
    respect_ttl: bool | None
    half_life: float | None
    access: Access
    paused: bool


@dataclass(frozen=True, slots=True)
class PollColumns:
    """Informative polls as columns of one length, in time order, to replay into an allocator."""

    site_id: NDArray[np.int64]
    at: NDArray[np.float64]
    elapsed: NDArray[np.float64]
    """inf at a site's first poll."""
    changed: NDArray[np.bool_]
    age: NDArray[np.float64]
    """nan where unknown"""
    count: NDArray[np.int64]
    """-1 where unknown"""


@dataclass(frozen=True, slots=True)
class PruneResult:
    """How much maintenance removed."""

    polls: int = 0
    contents: int = 0
    content_bytes: int = 0
    changes: int = 0


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """Some items of a list, and where to go on; `next_cursor` None: that was all."""

    items: list[T]
    next_cursor: str | None
