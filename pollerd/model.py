"""Shared data types: sites, polls, outcomes, evidence, changes. Values only; depends on msgspec at most (ADR 9).

Times are UTC epoch seconds (float), durations seconds (float), sizes bytes (int).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from pollerd.shown import SHOWN, Moment
from pollerd.site_settings import (
    SiteSpec,
)
from pollerd.texts import N_, _


class SiteState(StrEnum):
    """Where a site stands. Only `paused` is the user's doing; the rest follows from what polls met."""

    ACTIVE = "active"
    PAUSED = "paused"
    BACKING_OFF = "backing_off"
    BLOCKED = "blocked"
    GONE = "gone"


STATES: tuple[SiteState, ...] = (SiteState.ACTIVE, SiteState.BACKING_OFF, SiteState.BLOCKED, SiteState.GONE)
"""The states set by polls, in the order of their numbers in tables."""
STATE_CODE: dict[SiteState, int] = {state: code for code, state in enumerate(STATES)}


class JobAction(StrEnum):
    """What a job does to each of its sites."""

    PAUSE = "pause"
    RESUME = "resume"
    TAG = "tag"
    UNTAG = "untag"
    WEIGHT = "weight"
    LIMITS = "limits"
    DELETE = "delete"
    POLL = "poll"


class JobState(StrEnum):
    """How far a job is."""

    RUNNING = "running"
    """It goes on, also after a restart; it may wait for others."""
    DONE = "done"
    FAILED = "failed"
    """It cannot go on; what it did stays, and can be undone."""
    UNDOING = "undoing"
    UNDONE = "undone"

    @property
    def in_words(self) -> str:
        """The state as pages name it."""
        return _(_JOB_STATES[self])


_JOB_STATES = {
    JobState.RUNNING: N_("running"),
    JobState.DONE: N_("done"),
    JobState.FAILED: N_("failed"),
    JobState.UNDOING: N_("undoing"),
    JobState.UNDONE: N_("undone"),
}


class PageState(StrEnum):
    """Where a page that the focused crawler knows stands.

    `FRONTIER`: linked to, not asked for yet. `ASKED`: being asked for, as a site on trial. `COLLECTED`: relevant, and
    polled as a site. `REJECTED`: asked for and not taken, or dropped later. `GONE`: no longer in the collection.
    """

    FRONTIER = "fringe"
    ASKED = "asked"
    COLLECTED = "collected"
    REJECTED = "rejected"
    GONE = "gone"


class OutcomeKind(StrEnum):
    """What one poll came to.

    `NOTHING_SELECTED`: a page in which its site's selections match nothing. `PROVING`: it differs, and whether that is
    a change is decided by a second poll: until then the poll says nothing about the page's changes.

    `BODY` is what fetching says of a full response before detection has judged it; it is never stored:
    detection turns it into `FIRST`, `UNCHANGED`, `CHANGED` or `UNDECODABLE`.
    """

    BODY = "body"
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    FIRST = "first"
    NOT_MODIFIED = "not_modified"
    NOT_FOUND = "not_found"
    GONE = "gone"
    DENIED = "denied"
    BLOCKED_ADDRESS = "blocked_address"
    THROTTLED = "throttled"
    TOO_LARGE = "too_large"
    TIMEOUT = "timeout"
    TLS_ERROR = "tls_error"
    DNS_ERROR = "dns_error"
    CONNECT_ERROR = "connect_error"
    PROTOCOL_ERROR = "protocol_error"
    SERVER_ERROR = "server_error"
    CLIENT_ERROR = "client_error"
    UNDECODABLE = "undecodable"
    NOTHING_SELECTED = "nothing_selected"
    PROVING = "proving"

    @property
    def informative(self) -> bool:
        """True if the poll shows whether the page changed; others affect a backoff, never a rate."""
        return self in _INFORMATIVE

    @property
    def failed(self) -> bool:
        """True if the poll neither says anything of the page nor waits for a proof."""
        return not self.informative and self is not OutcomeKind.PROVING

    @property
    def link_suspect(self) -> bool:
        """True if our own link may be at fault instead of the site."""
        return self in _LINK_SUSPECT

    @property
    def in_words(self) -> str:
        """The outcome as pages name it."""
        return _(_OUTCOMES.get(self, self.value))


_OUTCOMES = {
    OutcomeKind.UNCHANGED: N_("unchanged"),
    OutcomeKind.CHANGED: N_("changed"),
    OutcomeKind.FIRST: N_("first check"),
    OutcomeKind.NOT_MODIFIED: N_("not modified"),
    OutcomeKind.NOT_FOUND: N_("not found"),
    OutcomeKind.GONE: N_("gone"),
    OutcomeKind.DENIED: N_("denied by robots.txt"),
    OutcomeKind.BLOCKED_ADDRESS: N_("private address"),
    OutcomeKind.THROTTLED: N_("too many requests"),
    OutcomeKind.TOO_LARGE: N_("too large"),
    OutcomeKind.TIMEOUT: N_("timed out"),
    OutcomeKind.TLS_ERROR: N_("TLS error"),
    OutcomeKind.DNS_ERROR: N_("DNS error"),
    OutcomeKind.CONNECT_ERROR: N_("no connection"),
    OutcomeKind.PROTOCOL_ERROR: N_("protocol error"),
    OutcomeKind.SERVER_ERROR: N_("server error"),
    OutcomeKind.CLIENT_ERROR: N_("refused"),
    OutcomeKind.UNDECODABLE: N_("not readable"),
    OutcomeKind.NOTHING_SELECTED: N_("watched part not found"),
    OutcomeKind.PROVING: N_("awaiting confirmation"),
}
_INFORMATIVE = frozenset({OutcomeKind.UNCHANGED, OutcomeKind.CHANGED, OutcomeKind.FIRST, OutcomeKind.NOT_MODIFIED})
_LINK_SUSPECT = frozenset({OutcomeKind.TIMEOUT, OutcomeKind.DNS_ERROR, OutcomeKind.CONNECT_ERROR})


class Detail:
    """Details of outcomes that other parts recognise after they were stored, by `texts.recognised`."""

    STATUS = N_("HTTP status {status}")
    STATUS_WITHOUT_PAGE = N_("HTTP status {status}, which comes without a page")
    REDIRECT_LOOP = N_("redirect loop at {target}")
    NO_TEXT = N_("the page has no text")
    NO_TEXT_BUT_FRAMES = N_("the page has no text, it shows frames: add their URLs instead ({named})")
    NO_TEXT_BUT_ANOTHER_PAGE = N_("the page has no text, it sends browsers on: add that URL instead ({plain})")
    NO_TEXT_WITHOUT_SCRIPTS = N_("the page has no text without its scripts: set render, so that a browser reads it")


class Media(StrEnum):
    """How a body is read."""

    HTML = "html"
    JSON = "json"
    FEED = "feed"
    TEXT = "text"
    BINARY = "binary"

    @property
    def in_words(self) -> str:
        """The medium as pages name it."""
        return _(_MEDIA[self])


_MEDIA = {
    Media.HTML: N_("page"),
    Media.JSON: N_("JSON"),
    Media.FEED: N_("feed"),
    Media.TEXT: N_("text"),
    Media.BINARY: N_("file"),
}


class Validators(Struct, frozen=True, gc=False):
    """Validators of the server, echoed verbatim: `ETag` as If-None-Match, `Last-Modified` as If-Modified-Since."""

    etag: str | None = None
    last_modified: str | None = None

    def __bool__(self) -> bool:
        return self.etag is not None or self.last_modified is not None


class Redirect(Struct, frozen=True, gc=False):
    """One redirect: its status and its absolute target URL."""

    status: int
    url: str


Box = tuple[int, int, int, int]
"""Left, top, width and height of an element in the picture of a page, pixels."""


class Outcome(Struct, frozen=True, gc=False):
    """Result of a fetch. Fetching returns it and never raises for a site's fault."""

    kind: OutcomeKind
    started_at: float
    duration: float
    status: int | None = None
    bytes: int = 0
    body: builtins.bytes | None = None
    content_type: str | None = None
    validators: Validators = Validators()
    server_date: float | None = None
    retry_after: float | None = None
    """Seconds that the server asked us to wait, as sent, not limited; None if absent or unreadable."""
    redirects: tuple[Redirect, ...] = ()
    detail: str = ""
    """One line for users: why it failed. Never a secret."""
    robots_tags: tuple[str, ...] = ()
    """BODY: its `X-Robots-Tag` headers, as sent."""
    fresh_for: float | None = None
    """TTL of the answer, seconds above 0; None without one."""
    screenshot: builtins.bytes | None = None
    """BODY of a rendered page: a PNG of it; None where none was asked for, or it was too large."""
    boxes: Mapping[str, Box] = {}
    """BODY of a rendered page, where they were asked for: path of an element by positions alone -> where it is in the
    picture. Paths are as `absolute_path` of the picker makes them.
    """
    hub_links: tuple[str, ...] = ()
    """BODY: its `Link` headers, as sent, if one of them may name a WebSub hub."""
    unpacked: bool = False
    """BODY: it was gzip without a word of it, which was not unpacked for the first reader."""

    def __post_init__(self) -> None:
        if (self.kind is OutcomeKind.BODY) != (self.body is not None):
            raise ValueError(_("body: present exactly when kind is 'body'"))


class Evidence(Struct, frozen=True, gc=False):
    """Evidence of a poll about a page's changes over the gap since the last informative poll.

    The strongest available is used: count, then age, then changed.
    """

    changed: bool
    age: float | None = None
    """Seconds since the last change, if a trusted date exists."""
    count: int | None = None
    """Number of new items, if they can be distinguished."""
    at_least: int | None = None
    """Number of new items that a feed showed; without `count` all were new, and more may have come."""
    span: float | None = None
    """Seconds in which these items came, by their dates; None: in the gap."""


class FeedWindow(Struct, frozen=True, gc=False, array_like=True):
    """What a feed showed when it was last read: items are entries with an id of their own."""

    items: int
    """Number of items, > 0."""
    new: int | None
    """How many of them were new at the last poll; None: it was the first."""
    limited: bool
    """Whether it shows only its newest items, as far as is known: False if it took new ones in and dropped none."""
    oldest_at: float | None
    newest_at: float | None
    """When the oldest and the newest item were published, by their own dates; epoch seconds."""
    read_at: float
    """Start of the poll that read it, epoch seconds."""
    full_polls: int = 0
    """Number of polls at which every item was new, so that others may have been lost."""
    away: int = 0
    """Number of polls since then whose answer was read, and was no feed."""

    @property
    def full(self) -> bool:
        """Whether every item was new at the last poll."""
        return self.new is not None and self.new >= self.items

    @property
    def shown(self) -> float | None:
        """Number of items beyond which the feed drops some; None: no such limit is known."""
        return float(self.items) if self.limited else None


READER = 2
"""Version of what detection reads of a body: raised where a body gives another text, other entries or other values.

A fingerprint is stored with the version that it is of. The first poll after an upgrade compares by that reader, so a
version stays readable for a release: `reader` of functions in `detection` says by which one to read, and goes with the
last version that needs it. 1: as before there were versions. 2: charsets; what readers see; all fields of entries; PDF
as text; groups of digits."""
READERS = (1, READER)
"""Versions that can be read. What is stored of another one begins anew, without a change."""
FIRST_READER, NO_READER = 1, 0
"""The version of what was stored before there were versions; in place of a version: the next poll begins anew."""


class Baseline(Struct, frozen=True, gc=False):
    """Remembered state of a site's content, to judge its next response. Small, because it is read with every poll."""

    fingerprint: bytes | None = None
    """16-byte hash of the normalised content; None: never seen."""
    raw_fingerprint: bytes | None = None
    """16-byte hash of the body as sent: if it is the same, nothing needs to be parsed."""
    media: Media | None = None
    items: bytes = b""
    """Feeds: packed little-endian uint64 hashes of the entries seen lately, newest last."""
    last_modified: float | None = None
    """The last `Last-Modified` seen, as epoch seconds."""
    last_modified_good: int = 0
    last_modified_bad: int = 0
    """Number of times that `Last-Modified` proved truthful, or false, for this site."""
    ttl: float | None = None
    """Announced TTL in seconds: of a feed what it says itself, of another page what the headers of its last answer
    said."""
    ttl_broken: bool = False
    """Whether a change was found inside an announced TTL: hints of this site are no longer believed."""
    mask: bytes = b""
    """The site's mask, as packed by detection; empty: none."""
    proven: bool = False
    """Whether a proof poll has shown what of the page is noise, which is what `mask` hides."""
    reader: int = FIRST_READER
    """Version of the reader whose text `fingerprint` is of : one of `READERS`, or `NO_READER`."""
    no_text: str = ""
    """Why a page has no text that could be compared, one line; empty: it has."""
    window: FeedWindow | None = None
    """Feeds: what it showed when it was last read."""


DEFAULT_SELECTION = "default"
"""Name of a site's first selection."""
OF_SELECTIONS = b"selections"
"""In place of the fingerprint of a site with selections, which have their own. Without any it then begins anew."""


class StoredReading(Struct, frozen=True, gc=False):
    """A value of a selection as last read. `problem`: why it could not be read now; the rest is then the last one."""

    text: str = ""
    """Canonical text: a plain decimal number, a date as ISO 8601, or the text itself; empty: never read."""
    number: float | None = None
    moment: float | None = None
    """Dates: epoch seconds."""
    currency: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """A value as last read."""

    __pydantic_config__ = SHOWN
    name: str
    text: str
    """A plain decimal number, a date as ISO 8601, or the text itself; empty: it could never be read."""
    number: float | None
    moment: Moment | None
    currency: str | None
    problem: str
    """Why it could not be read last; the rest is then from before."""

    @classmethod
    def of(cls, name: str, reading: StoredReading) -> CurrentValue:
        """Returns the reading of this name."""
        return cls(name, reading.text, reading.number, reading.moment, reading.currency, reading.problem)


class SelectionState(Struct, frozen=True):
    """What is known of one selection of a site between polls."""

    name: str
    version: bytes
    """Of the settings that its base was read by; another one begins anew, unless it `outlives_edit`."""
    baseline: Baseline = Baseline()
    content_id: int | None = None
    """Its current content."""
    announced_id: int | None = None
    """Its content at the last change that mattered; None: none has yet."""
    readings: Mapping[str, StoredReading] = {}
    announced: Mapping[str, StoredReading] = {}
    """The values at the last change that mattered, or at the first poll."""
    missing: str = ""
    """Why the last poll found nothing of it; empty: it did."""
    keeps_base: bool = False
    """Whether a user who edited its settings wants it to be compared with the content from before."""

    @property
    def outlives_edit(self) -> bool:
        """Whether its base is kept if its settings have another version by now: an edit then is a repair."""
        return self.keeps_base or self.missing != ""


class ChangeVerdict(Struct, frozen=True, gc=False):
    """Whether a change matters by its selection's conditions, and why, in one line."""

    matters: bool = True
    why: str = ""


class SelectionDetection(Struct, frozen=True):
    """Result of change detection in one selection. `kind` is FIRST, UNCHANGED, CHANGED or NOTHING_SELECTED."""

    name: str
    version: bytes
    kind: OutcomeKind
    baseline: Baseline
    content: bytes | None = None
    """What it keeps, if that is new."""
    readings: Mapping[str, StoredReading] = {}
    age: float | None = None
    """As in `Evidence`."""
    count: int | None = None
    """As in `Evidence`."""
    missing: str = ""
    """NOTHING_SELECTED: why, one line."""
    reread: SelectionDetection | None = None
    """As in `Detection`."""
    summary: str = ""
    """CHANGED: what did, in one line."""
    verdict: ChangeVerdict = ChangeVerdict()
    """CHANGED: whether it matters."""
    hidden: tuple[int, ...] = ()
    """As in `Detection`."""


class Detection(Struct, frozen=True, gc=False):
    """Result of change detection.

    `kind` is FIRST, UNCHANGED, CHANGED, PROVING, NOT_MODIFIED, UNDECODABLE or NOTHING_SELECTED.
    """

    kind: OutcomeKind
    baseline: Baseline
    evidence: Evidence | None = None
    content: bytes | None = None
    """The normalised content (UTF-8 text, or the bytes unchanged) to keep; None if nothing is new."""
    detail: str = ""
    selections: tuple[SelectionDetection, ...] = ()
    """A site with selections: the result of each, if the body was read; its contents are there."""
    reread: Detection | None = None
    """UNCHANGED by the earlier reader that the baseline is of: the same answer as the present reader reads it."""
    hidden: tuple[int, ...] = ()
    """For each rule of the baseline's mask a hash of what it acts on, 0 if that is nothing; empty: not looked at."""


class Role(StrEnum):
    """What somebody may do."""

    READ = "read"
    WRITE = "write"
    SIGNALS = "signals"
    """Of tokens only: may report changed pages, and nothing else."""


@dataclass(frozen=True, slots=True)
class Site:
    """Public view of a site (REST: `GET /sites/{id}`)."""

    id: int
    spec: SiteSpec
    host: str
    state: SiteState
    created_at: float
    last_poll_at: float | None = None
    next_poll_at: float | None = None
    """The earliest time of the next poll; the allocator decides when it happens."""
    polls: int = 0
    changes: int = 0
    failures: int = 0
    """Consecutive failures."""
    last_outcome: OutcomeKind | None = None
    last_detail: str = ""
    redirect_url: str | None = None
    """Target of a repeated permanent redirect; proposed as the new URL after `redirect_count` confirmations."""
    redirect_count: int = 0
    hidden_changes: int = 0
    """Number of polls that found nothing because all that differed is masked as noise."""
    page_title: str = ""
    """What the page or feed calls itself, as last read; empty: nothing."""
    last_change_at: float | None = None
    """When its last change was detected; None: none was."""

    @property
    def title(self) -> str:
        """The name that people see: the user's title, else the page's own; empty: there is none."""
        return self.spec.title or self.page_title


class Poll(Struct, frozen=True, gc=False):
    """A recorded poll. `elapsed` is seconds since the last informative poll, None at the first."""

    site_id: int
    at: float
    elapsed: float | None
    outcome: OutcomeKind
    status: int | None
    duration: float
    bytes: int
    changed: bool
    age: float | None = None
    count: int | None = None
    detail: str = ""
    redirects: tuple[Redirect, ...] = ()
    id: int | None = None
    at_least: int | None = None
    span: float | None = None
    """As of its `Evidence`; None for pages without items."""


@dataclass(frozen=True, slots=True)
class HostOverride:
    """An operator's last action on a host: a pause by hand, or the end of its pause."""

    __pydantic_config__ = SHOWN
    at: Moment
    by: str
    """The operator, as far as known: the scope of the token."""
    paused: bool
    """true: paused by hand; false: a pause was ended."""
    until: Moment | None = None
    """Time when a pause by hand ends; None: it ends when a user ends it."""

    @property
    def held_until(self) -> float:
        """Time before which no request to the host may start (epoch s); inf: until somebody ends the pause."""
        if not self.paused:
            return 0.0
        return math.inf if self.until is None else self.until


@dataclass(frozen=True, slots=True)
class ChangeJudgement:
    """What the conditions say of a difference."""

    __pydantic_config__ = SHOWN
    counts: bool
    """Whether it is large enough to be a change."""
    matters: bool
    """Whether it would be announced."""
    why: str
    summary: str


@dataclass(frozen=True, slots=True)
class EarlierJudgement:
    """What the conditions would have said of a stored change."""

    __pydantic_config__ = SHOWN
    change_id: int
    detected_at: Moment
    counts: bool
    matters: bool
    why: str


@dataclass(frozen=True, slots=True)
class SelectionPreview:
    """What one selection keeps of a page."""

    __pydantic_config__ = SHOWN
    name: str
    kind: Media
    kept: str
    cut: bool
    """Whether more is kept than is shown."""
    removed: tuple[str, ...]
    """Lines of the page that are not kept."""
    values: tuple[CurrentValue, ...]
    missing: str
    """Why nothing is selected; empty: something is."""
    warnings: tuple[str, ...]
    now: ChangeJudgement | None
    """Of the difference from the stored content; None: there is none to compare with, or they are equal."""
    earlier: tuple[EarlierJudgement, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A detected change: it happened between the previous poll and the one that detected it."""

    __pydantic_config__ = SHOWN
    id: int
    site_id: int
    url: str
    detected_at: Moment
    """When the answer that shows it was there, so never before the change itself."""
    previous_poll_at: Moment | None
    kind: Media
    summary: str
    selection: str = DEFAULT_SELECTION
    """The selection in which it was found."""
    matters: bool = True
    """Whether it is announced: the verdict of the selection's conditions; without any, all are."""
    why: str = ""
    """What the conditions say, one line; empty: there are none."""
    before_content_id: int | None = None
    """None: pruned; a screenshot may be kept with it."""
    after_content_id: int | None = None
    """None: pruned; a screenshot may be kept with it."""
    title: str = ""
    """The title of its site: the user's, else the page's own; empty: there is none."""
