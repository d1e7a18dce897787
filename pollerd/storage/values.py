"""Values for storage. Times are epoch seconds, durations seconds."""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError
from pollerd.events import Incident, Notice
from pollerd.model import (
    Baseline,
    ChangeVerdict,
    HostOverride,
    Media,
    OutcomeKind,
    Poll,
    SelectionState,
    Site,
    SiteState,
    Validators,
)
from pollerd.site_settings import NO_ACCESS, Access, SiteSpec, Windows, differing
from pollerd.storage.page_values import CrawlUpdate, PageRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredTtls:
    """What sites announced, as columns of length n, ordered by id."""

    site_id: NDArray[np.int64]
    ttl: NDArray[np.float64]
    """Seconds; 0: nothing at the last poll."""
    broken: NDArray[np.bool_]
    """Whether a change was found inside such a time."""


@dataclass(frozen=True, slots=True)
class ScheduleRows:
    """Sites as columns of length n, ordered by id: the initial state of the scheduler. nan: unknown."""

    site_id: NDArray[np.int64]
    host_id: NDArray[np.int64]
    paused: NDArray[np.bool_]
    state: NDArray[np.int8]
    """Indices into `STATES`; the pause is a separate column."""
    weight: NDArray[np.float64]
    cost: NDArray[np.float64]
    min_interval: NDArray[np.float64]
    max_interval: NDArray[np.float64]
    min_saving: NDArray[np.float64]
    min_yield: NDArray[np.float64]
    respect_ttl: NDArray[np.float64]
    """A `RespectTtl`."""
    half_life: NDArray[np.float64]
    deadline: NDArray[np.float64]
    last_poll_at: NDArray[np.float64]
    last_seen_at: NDArray[np.float64]
    """Last informative poll."""
    not_before: NDArray[np.float64]
    items_shown: NDArray[np.float64]
    """Feeds: how many of their newest items they show."""
    failures: NDArray[np.int64]
    polls: NDArray[np.int64]
    changes: NDArray[np.int64]
    learned_half_life: NDArray[np.float64]
    """Learned from reads; in force where no half_life is given."""
    windows: dict[int, Windows] = field(default_factory=dict)
    """Site id -> when it may be polled, of those that have windows."""

    def __len__(self) -> int:
        return len(self.site_id)


@dataclass(frozen=True, slots=True)
class SettingsColumns:
    """What sites are polled by, as columns [k] ordered by id; nan: the default."""

    site_id: NDArray[np.int64]
    numbers: dict[str, NDArray[np.float64]]
    """By name, those of `NUMERIC_SETTINGS`."""
    windows: dict[int, Windows]
    """Site id -> when it may be polled, of those that have windows."""

    def __len__(self) -> int:
        return len(self.site_id)

    def part(self, rows: slice) -> SettingsColumns:
        """Returns some rows; `windows` holds those of all."""
        return SettingsColumns(self.site_id[rows], {n: v[rows] for n, v in self.numbers.items()}, self.windows)


_NO_VALIDATORS = Validators()
_NO_BASELINE = Baseline()


class SiteContext(Struct, frozen=True, gc=False):
    """What a poll needs of its site, and what it updates for the next.

    In a `PollRecord`, `content_id`, `last_outcome`, `settings_changed_at` and `access` are not read: the first follows
    from the record's content, the second from its poll, the others are set by the user.
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
    selections: str = ""
    """What of the page counts, inherited parts included (`SiteSpec.selections`)."""
    own_selections: str = ""
    """What of it the site itself says."""
    render: str = ""
    """How a browser renders the page (`SiteSpec.render`)."""
    keep_screenshots: bool = False
    spelling: str = ""
    """The URL as it is sent, if not as `url` (`SiteSpec.spelling`)."""
    states: tuple[SelectionState, ...] = ()
    """What is known of its selections."""
    tags: tuple[str, ...] = ()
    """Those of its tags that rules name, or that say what is sent to it."""
    fault: str = ""
    """Why the site's stored row cannot be used; then only id and URL are as stored."""


class ChangeDraft(Struct, frozen=True, gc=False):
    """A detected change without an id. Its contents follow from its record."""

    kind: Media
    summary: str
    previous_poll_at: float | None
    verdict: ChangeVerdict = ChangeVerdict()


class SelectionRecord(Struct, frozen=True):
    """The effects of one poll on one selection of its site."""

    state: SelectionState
    """After the poll, with the ids of contents from before it."""
    content: bytes | None = None
    """New content of the selection; its fingerprint and media are those of the state's baseline."""
    change: ChangeDraft | None = None
    announces: bool = False
    """Whether this content and these values are what later ones are held against: of a first content, and of a change
    that matters.
    """
    read: tuple[str, ...] = ()
    """Names of the values that were read differently than before."""


class PollRecord(Struct, frozen=True, gc=False):
    """One poll with all its effects; committed entirely or not at all.

    A record whose site was deleted, or moved from `context.url`, is skipped.
    """

    poll: Poll
    context: SiteContext
    """The site's context after this poll."""
    state: SiteState
    """Any but `PAUSED`, which only the user sets."""
    not_before: float | None = None
    failures: int = 0
    """Consecutive failures, including this poll."""
    last_seen_at: float | None = None
    """Last informative poll, including this one."""
    content: bytes | None = None
    """New normalised content; its fingerprint and media are those of `context.baseline`."""
    page_title: str = ""
    """What a page that was new or changed calls itself; empty: nothing, or it was not read."""
    change: ChangeDraft | None = None
    learned: bytes | None = None
    """The allocator's state of this site, for `Batch.allocator`."""
    rate: float | None = None
    """Believed changes per day; None: nothing is believed yet."""
    next_poll_at: float | None = None
    """Earliest moment of its next poll; None: `not_before`."""
    mask_changed: bool = False
    """Whether this poll changed `context.baseline.mask`, or proved it."""
    misled: bool = False
    """Whether the changes that earlier polls found were noise that is masked now, or what a mask hid were changes."""
    hid_change: bool = False
    """Whether the poll found nothing because all that differed is masked as noise."""
    page: PageRecord | None = None
    """The result for the focused crawler's page, if the site is one."""
    selections: tuple[SelectionRecord, ...] = ()
    """A site with selections: those on which the poll had an effect."""
    notices: tuple[Notice, ...] = ()
    """What is told of this poll, all with its site; one of a change is tied to the change in its `selection`. Of an
    event that a channel was told of before, nothing is written."""
    incidents_opened: tuple[Incident, ...] = ()
    incidents_closed: tuple[int, ...] = ()
    """Ids of rules whose incident of this site has ended."""
    screenshot: bytes | None = None
    """PNG of the page, to be kept with each of its contents that are new."""

    @property
    def changes(self) -> int:
        """How many changes the poll found."""
        own = int(self.change is not None)
        return own + sum(selection.change is not None for selection in self.selections) if self.selections else own


@dataclass(frozen=True, slots=True)
class StoredRobots:
    """The result of fetching a host's robots.txt. `kind` is defined by the caller, `body` the text as fetched."""

    kind: str
    at: float
    body: bytes | None = None
    detail: str = ""
    crawl_delay: float | None = None


@dataclass(frozen=True, slots=True)
class HostUpdate:
    """A host's politeness state to store; `robots` None keeps the stored robots.txt."""

    host_id: int
    last_start_at: float | None
    paused_until: float | None = None
    throttles: int = 0
    """Consecutive throttled answers."""
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
    """The stored fields of a host in a list of hosts; the running daemon has all others."""

    id: int
    name: str
    robots_detail: str
    """Why the last robots.txt could not be used, one line for the user."""


def _new_batch_id() -> bytes:
    return uuid.uuid4().bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """The contents of one transaction. Its id makes repetition safe: a committed batch is not counted again."""

    records: Sequence[PollRecord] = ()
    hosts: Sequence[HostUpdate] = ()
    allocator: str | None = None
    """Owner of the learned states; required if a record has `learned` or `shared_state` is given."""
    shared_state: bytes | None = None
    findings: CrawlUpdate | None = None
    """Changes of the focused crawler's collection; required if a record has a `page`."""
    notices: tuple[Notice, ...] = ()
    """What is told besides of events that no record's poll is the cause of."""
    id: bytes = field(default_factory=_new_batch_id)


@dataclass(frozen=True, slots=True)
class CommittedChange:
    """A committed change, by its id, and the index of its record in the batch."""

    id: int
    site_id: int
    record: int


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of a commit."""

    changes: tuple[CommittedChange, ...] = ()
    skipped: tuple[int, ...] = ()
    """Sites whose records were left out: they were deleted, lost to another node or edited meanwhile."""
    content_ids: Mapping[int, int] = field(default_factory=dict)
    """Site -> its new current content."""
    selected_ids: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """Site and selection -> the selection's new current content."""
    stale_pages: tuple[int, ...] = ()
    """Ids of frontier pages whose values are outdated by changes of their link context."""


@dataclass(frozen=True, slots=True)
class AllocationRow:
    """The active allocator. `shared_state` is its own versioned format."""

    allocator: str
    objective: str
    budget: float
    shared_state: bytes | None = None
    learned_through: int | None = None
    """Id of the last poll included in `shared_state`. Storage sets it to the last poll."""
    deadline: float | None = None
    """Seconds, of sites without their own; None: none was set yet."""
    shadows: tuple[str, ...] = ()
    """Names of the allocators in shadow."""


@dataclass(frozen=True, slots=True)
class StoredForecast:
    """What was known of a site's future at its last committed poll."""

    rate_per_day: float | None
    """Believed changes per day, within 2 %; None: nothing is believed yet."""
    next_poll_at: float | None
    """Earliest time of its next poll, epoch s, possibly past; None: there will be none."""
    learned_half_life: float | None = None
    """Learned from reads, s; None: none is."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The daemon's run, and the end of the previous one."""

    run_id: int
    previous_clean: bool
    """True after a clean stop, and at the very first start."""
    previous_stopped_at: float | None
    """When it stopped (epoch s); None: not cleanly, or there was none."""


@dataclass(frozen=True, slots=True)
class AddResult:
    """The result of an import for every spec, by its index; each index is in exactly one list."""

    added: list[tuple[int, int, int]]
    """(site id, index, host id)"""
    existing: list[tuple[int, int]]
    """(site id, index)"""
    deleted: list[int]
    """Indices of URLs left out because a user deleted them."""
    refused: list[tuple[int, InvalidValueError]] = field(default_factory=list)
    """(index, reason) of sites that the active allocator cannot hold."""
    returned: list[int] = field(default_factory=list)
    """Ids of existing sites that a job had deleted: they are back, with the settings that they had."""
    at: float = 0.0
    """When the new ones were added, epoch s."""


@dataclass(frozen=True, slots=True)
class ImportCheck:
    """What an import would do, by index of the spec."""

    existing: frozenset[int]
    """Those whose URLs are sites already."""
    refused: list[tuple[int, InvalidValueError]]
    """(index, reason) of sites that the active allocator cannot hold."""


@dataclass(frozen=True, slots=True)
class NewSettings:
    """The new settings of a site: all of `spec`."""

    site_id: int
    spec: SiteSpec
    resumed: bool
    """Whether it was paused and will be polled again: as if resumed by hand, it is restarted."""


@dataclass(frozen=True, slots=True)
class SettingsResult:
    """The result of new settings by index of the spec; unchanged sites are in neither list."""

    changed: list[tuple[int, int]]
    """(site id, index)"""
    refused: list[tuple[int, InvalidValueError]]
    """(index, reason) of settings that the active allocator cannot hold."""


@dataclass(frozen=True, slots=True)
class SiteRestore:
    """A site of an export."""

    spec: SiteSpec
    keeps_access: bool = False
    """Whether its secrets were left out: an existing site keeps its own."""

    def over(self, before: SiteSpec) -> SiteSpec:
        """Returns the new settings of a site with the settings `before`."""
        return replace(self.spec, access=before.access) if self.keeps_access else self.spec

    def changes(self, before: SiteSpec) -> bool:
        """Returns whether these differ from `before`."""
        return bool(differing(before, self.over(before)))


@dataclass(slots=True)
class RestoreResult:
    """The result of restoring the sites of an export."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    touched: array[int] = field(default_factory=lambda: array("q"))
    """Ids of the added or changed sites."""


@dataclass(frozen=True, slots=True)
class SiteFilter:
    """Which sites to list; None: any."""

    q: str | None = None
    """Words that are parts of URL or title, any case."""
    tag: str | None = None
    state: SiteState | None = None
    host: str | None = None
    """"host:port"."""
    source: int | None = None
    """Id of a source that lists, or listed, them."""
    rate_min: float | None = None
    """Least believed changes per day, as far as they are believed to change."""
    rate_max: float | None = None
    changed_since: float | None = None
    """Epoch s: a change was detected then or later."""


Rebase = Literal["keep", "anew"]
"""What an edit makes of the content that the next poll is compared with."""


SiteChanges = Mapping[str, Any]
"""New values for a site, by the fields of `SiteSpec`; omitted ones stay. `host` is given with `url`. `rebase`, a
`Rebase` or None, is no setting."""
CHANGEABLE = frozenset({*SiteSpec.__struct_fields__, "host", "rebase"})
"""What `SiteChanges` can hold."""


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
    at_least: NDArray[np.int64]
    """As of `Evidence`; -1 where unknown"""
    span: NDArray[np.float64]
    """As of `Evidence`; nan where unknown"""


@dataclass(frozen=True, slots=True)
class StripColumns:
    """Polls of one site as columns of one length."""

    at: NDArray[np.float64]
    """Epoch s."""
    changed: NDArray[np.bool_]
    """Whether it found a change."""
    failed: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PruneResult:
    """Numbers of rows and bytes removed by pruning."""

    polls: int = 0
    contents: int = 0
    content_bytes: int = 0
    changes: int = 0
    notices: int = 0
    """Ended ones, and attempts to send."""


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """Some items of a list, and the cursor of the next; `next_cursor` None: there are no more."""

    items: list[T]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class SitePage(ListPage[Site]):
    """Some sites of a list, with the cursor of those before them, and how many fit the filter."""

    previous_cursor: str | None = None
    """None: there are none before them."""
    count: int | None = None
    """None: they were not counted, or there is no filter."""
    count_is_exact: bool = True
    """False: there are more, or may be."""
