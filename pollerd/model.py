"""Shared data types: sites, polls, outcomes, evidence, changes. Values only; depends on msgspec at most (ADR 9).

Times are UTC epoch seconds (float), durations seconds (float), sizes bytes (int).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum, StrEnum
from typing import Literal, Self

from msgspec import Struct


class RespectTtl(IntEnum):
    """Whether a site is left alone for as long as it announces (max-age, Expires, a feed's ttl).

    The numbers are stored.
    `HINT`: up to an hour, unless a change was found inside an earlier promise of the site. `STRICT`: up to a day.
    """

    OFF = 0
    STRICT = 1
    HINT = 2

    @classmethod
    def of(cls, value: object) -> Self:
        """Returns the value as users write it. Raises ValueError, which says what is allowed.

        Earlier versions knew true and false, in all the words that there are for them.
        """
        if isinstance(value, cls):
            return value
        word = str(value).strip().lower() if isinstance(value, str | bool) else ""
        if word not in _TTL_NUMBERS:
            raise ValueError(TTL_WORDS)
        return cls(_TTL_NUMBERS[word])

    @property
    def shown(self) -> bool | Literal["hint"]:
        """The value as programs read it: what was true or false before there were hints still is."""
        return "hint" if self is RespectTtl.HINT else self is RespectTtl.STRICT


TTL_WORDS = "off, hint or strict (true: strict, false: off)"
"""What is allowed as `RespectTtl`."""
_TTL_NUMBERS = {
    **dict.fromkeys(("off", "false", "no", "f", "n", "0"), 0),
    **dict.fromkeys(("strict", "true", "yes", "on", "t", "y", "1"), 1),
    "hint": 2,
}


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


_INFORMATIVE = frozenset({OutcomeKind.UNCHANGED, OutcomeKind.CHANGED, OutcomeKind.FIRST, OutcomeKind.NOT_MODIFIED})
_LINK_SUSPECT = frozenset({OutcomeKind.TIMEOUT, OutcomeKind.DNS_ERROR, OutcomeKind.CONNECT_ERROR})


class Media(StrEnum):
    """How a body is read."""

    HTML = "html"
    JSON = "json"
    FEED = "feed"
    TEXT = "text"
    BINARY = "binary"


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
    hub_links: tuple[str, ...] = ()
    """BODY: its `Link` headers, as sent, if one of them may name a WebSub hub."""

    def __post_init__(self) -> None:
        if (self.kind is OutcomeKind.BODY) != (self.body is not None):
            raise ValueError("body: present exactly when kind is 'body'")


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

    @property
    def full(self) -> bool:
        """Whether every item was new at the last poll."""
        return self.new is not None and self.new >= self.items

    @property
    def shown(self) -> float | None:
        """Number of items beyond which the feed drops some; None: no such limit is known."""
        return float(self.items) if self.limited else None


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
    summary: str = ""
    """CHANGED: what did, in one line."""
    verdict: ChangeVerdict = ChangeVerdict()
    """CHANGED: whether it matters."""


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
    hidden: tuple[int, ...] = ()
    """For each rule of the baseline's mask a hash of what it acts on, 0 if that is nothing; empty: not looked at."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and a password, or a bearer token. Secret: `repr` shows none of them."""

    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    """Settings of a site's requests. Secret: `repr` shows none of them."""

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """(name, value), sent to the origin of the site's URL only."""
    credentials: Credentials | None = field(default=None, repr=False)
    """Sent to the origin of the site's URL only."""
    proxy: str | None = field(default=None, repr=False)
    """URL of the proxy for all requests of the site, perhaps with user name and password."""
    body: str | None = field(default=None, repr=False)
    """Sent to the site's URL by POST, once a poll; None: it is asked for by GET."""
    typed: tuple[str, ...] = field(default=(), repr=False)
    """Secrets that the steps of a rendered poll type, in order."""
    pdf_password: str | None = field(default=None, repr=False)
    """Opens the PDF document that the site is; never sent."""

    def __bool__(self) -> bool:
        given = (self.credentials, self.body, self.proxy, self.pdf_password)
        return bool(self.headers or self.typed) or any(one is not None for one in given)

    @property
    def header_names(self) -> tuple[str, ...]:
        """Names of the headers, which are not secret."""
        return tuple(name for name, _ in self.headers)

    def elsewhere(self) -> Access:
        """Returns the part that applies to another origin: the proxy."""
        return Access(proxy=self.proxy)


NO_ACCESS = Access()


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week, as `datetime.weekday` counts them."""


class DayWindow(Struct, frozen=True, gc=False, rename={"begins": "from", "ends": "to"}):
    """Hours of some days in which a site may be polled; `ends` not after `begins`: on the next day."""

    days: tuple[str, ...]
    begins: str
    ends: str


class Windows(Struct, frozen=True, gc=False):
    """When a site may be polled, in the time of an IANA zone; see `scheduling.windows`."""

    zone: str
    open: tuple[DayWindow, ...]


class SiteSpec(Struct, frozen=True, gc=False):
    """What the user says of a site, without anything inherited or learned; None: not said, see `inheritance`.

    Not a dataclass: a list has millions of them, and a Struct is created in a tenth of the time.
    """

    url: str
    weight: float | None = None
    cost: float | None = None
    tags: tuple[str, ...] = ()
    min_interval: float | None = None
    max_interval: float | None = None
    half_life: float | None = None
    access: Access = NO_ACCESS
    paused: bool = False
    min_yield: float | None = None
    respect_ttl: RespectTtl | None = None
    selections: str = ""
    """What of the page counts: settings by name as JSON (`detection.selection`); empty: the whole page."""
    windows: Windows | None = None
    render: str = ""
    """How a browser renders the page, as JSON (`rendering.plan`), secrets apart; empty: it is fetched."""
    keep_screenshots: bool | None = None
    """Whether a PNG of the rendered page is kept with each new content."""
    title: str = ""
    """What users call it."""
    deadline: float | None = None
    """Seconds within which a change should be found, for the objective `deadline`."""


NUMERIC_SETTINGS: dict[str, float | None] = {
    "weight": 1.0,
    "cost": 1.0,
    **dict.fromkeys(("min_interval", "max_interval", "min_yield", "respect_ttl", "half_life", "deadline")),
}
"""Numeric settings of a site -> default of those that nobody says: columns of the database and of the scheduler."""


class TagSettings(Struct, frozen=True):
    """Settings that the sites of a tag inherit."""

    name: str
    settings: Mapping[str, object] = {}
    """Value of each setting that is given, as in `SiteSpec`; settings of another version as JSON has them."""
    access: Access = NO_ACCESS
    changed_at: float | None = None
    fault: str = ""
    """Why the stored row cannot be used; then its sites are not polled."""


Tags = Mapping[str, TagSettings]
"""The tags that have settings, by name."""


def differing(before: SiteSpec, after: SiteSpec) -> tuple[str, ...]:
    """Returns the names of settings that differ between specs of one URL; headers, credentials, proxy separately."""
    here, there = _settings(before), _settings(after)
    return tuple(name for name, value in here.items() if value != there[name])


def _settings(spec: SiteSpec) -> dict[str, object]:
    values = {name: getattr(spec, name) for name in spec.__struct_fields__ if name not in ("url", "access")}
    access = {one.name: getattr(spec.access, one.name) for one in fields(spec.access)}
    return {**values, **access, "headers": dict(spec.access.headers)}


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

    at: float
    by: str
    """The operator, as far as known: the scope of the token."""
    paused: bool
    until: float | None = None
    """When a pause by hand ends by itself; None: when somebody ends it."""

    @property
    def held_until(self) -> float:
        """Time before which no request to the host may start (epoch s); inf: until somebody ends the pause."""
        if not self.paused:
            return 0.0
        return math.inf if self.until is None else self.until


@dataclass(frozen=True, slots=True)
class Change:
    """One detected change: it lies between two polls and between two stored contents."""

    site_id: int
    url: str
    detected_at: float
    """When the answer that shows it was there, so never before the change itself."""
    previous_poll_at: float | None
    kind: Media
    summary: str
    before_content_id: int | None = None
    after_content_id: int | None = None
    selection: str = DEFAULT_SELECTION
    """The selection in which it was found."""
    matters: bool = True
    """Whether it is announced: the verdict of the selection's conditions."""
    why: str = ""
    """What the conditions say, one line; empty: there are none."""
    id: int | None = None
