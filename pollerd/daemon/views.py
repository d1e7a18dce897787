"""Values of the live loop for the API and the status line, and the feed of committed polls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from pollerd.allocation.objectives import ExpectedTimeliness, Timeliness
from pollerd.detection.noise.mask import KnownBy
from pollerd.model import HostOverride, Poll, SiteState
from pollerd.scheduling.capacity import PollLimit
from pollerd.shown import SHOWN, Known, Moment, ShownAs, shown_as
from pollerd.storage.values import PollRecord


@dataclass(frozen=True, slots=True)
class LiveSite:
    """In-memory values of a site."""

    rate_per_day: float | None
    next_poll_at: float | None
    """Earliest time of its next poll, epoch s; None: none is scheduled at present."""
    learned_half_life: float | None = None
    """Learned from reads of its changes, s; in force where no half_life is given. None: none is."""
    asked: bool = False
    """Whether its next poll comes before all others: a user asked for it, or its settings have changed."""


@dataclass(frozen=True, slots=True)
class FeedView:
    """What a feed showed when it was last read. Durations in seconds."""

    __pydantic_config__ = SHOWN
    items: int
    """Number of its items."""
    new: int | None
    """How many of the items were new at the last poll; None: it was the first."""
    limited: bool
    """Whether it drops old items when new ones come, as far as is known."""
    oldest_at: Moment | None
    """When the oldest item was published, by its own date."""
    newest_at: Moment | None
    read_at: Moment
    full_polls: int
    """Number of polls at which every item was new, so that others may have come and gone before."""
    full_after: float | None
    """Time in which as many items come as it shows, at the estimated rate; None: not limited, or not known."""


@dataclass(frozen=True, slots=True)
class NoiseView:
    """A part of a page that is masked as noise, or was."""

    __pydantic_config__ = SHOWN
    id: str
    """Names it among those of its site."""
    selection: str | None
    """In which it is; null: in the page, which has no selections."""
    hides: str
    """What it hides and where, in a line."""
    known_by: KnownBy
    hidden: bool
    """False: it is shown again, because a user said so; nor is it learned again."""
    differed: int | None
    """How many of the `polls` since `since` would have found a change here alone; null: none was compared yet."""
    polls: int | None
    since: Moment | None


@dataclass(frozen=True, slots=True)
class ComingChangesView:
    """How many times a page will change in the coming 30 days, as far as its rate is known and by how rates drift."""

    __pydantic_config__ = SHOWN
    low: int
    median: int
    high: int
    """With a probability of 90 % the number is from `low` to `high`."""


class WaitsFor(StrEnum):
    """What keeps a site from being polled at a moment."""

    RESUME = "resume"
    """It is paused."""
    GONE = "gone"
    """The server said 410 Gone: it is requested again rarely."""
    ITS_POLL = "its_poll"
    """A poll of it is under way."""
    WINDOW = "window"
    ALLOW_PRIVATE = "allow_private"
    """Its address is private."""
    READING = "reading"
    """Reading its page takes long."""
    RETRY = "retry"
    """Its last polls failed."""
    HOST_RESUME = "host_resume"
    """A user paused its host."""
    HOST_PAUSE = "host_pause"
    """The host asked to be left alone."""
    ROBOTS = "robots"
    """robots.txt is unreachable."""
    HOST_REQUEST = "host_request"
    """Another request to the host is under way."""
    HOST_INTERVAL = "host_interval"
    CONFIRMATION = "confirmation"
    """A second poll shows whether its change is only noise."""
    UNIFORM_SHARE = "uniform_share"
    """It changes at nearly every poll."""
    MAX_AGE = "max_age"
    """The max-age or ttl that it announced."""
    LIKELIER_CHANGE = "likelier_change"
    """A change that is likely enough for min_saving and min_yield."""
    MIN_INTERVAL = "min_interval"


@dataclass(frozen=True, slots=True)
class ExplanationView:
    """Why a site is polled as it is. Durations in seconds."""

    __pydantic_config__ = shown_as(announced_ttl="told_ttl")
    site_id: int
    allocator: str
    objective: str
    rate_per_day: float | None
    rate_low_per_day: float | None
    rate_high_per_day: float | None
    """The rate up to now, its median and 90 % interval: it does not hold for the time to come, see `next_30_days`."""
    elapsed: float | None
    change_probability: float | None
    urgency: float | None
    rank: int | None
    """1: the most urgent of all sites; estimated from a sample of 16,384 if there are more."""
    price: Known
    budget_share: float | None
    expected_interval: float | None
    next_poll_at: Moment | None
    next_expected_poll_at: Moment | None
    believed_unchanged_until: Moment | None
    """No poll is planned before this time, because of min_saving, min_yield, or an announced max-age or TTL; None:
    none applies now."""
    announced_ttl: float | None
    """For how long the page last announced that it need not be polled again; None: it does not, or the site does not
    respect it."""
    why_not_now: str | None
    capped_to_uniform: bool
    failures: int
    notes: dict[str, str]
    """Further notes of the allocator on the site, in words: prior_source, profile, drift."""
    host: str
    """name:port"""
    host_override: HostOverride | None
    """The operator's last action on the host's pause."""
    min_saving_in_force: float | None
    """How much sooner a poll has to bring news, s, at its weight and cost; None: never that much (weight 0)."""
    half_life_in_force: float
    """For the objective interest, s: given, learned from reads, or the default; `origins` says which."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each setting comes from: site, `tag NAME`, or default, of half_life also reads; headers by name, as
    headers.Accept."""
    mask: tuple[str, ...] = ()
    """Parts of the page that are masked as noise, one line each."""
    noise: tuple[NoiseView, ...] = ()
    """The same, one by one, with those that are shown again."""
    feed: FeedView | None = None
    """What it shows, if it is a feed."""
    next_30_days: ComingChangesView | None = None
    """None: after fewer than five polls, or the policy estimates no rates."""
    waits_for: WaitsFor | None = None
    """The same as `why_not_now`, in one word for programs; None also from a node of an older version."""


RobotsState = Literal["unknown", "found", "absent", "unreachable"]
PausedBy = Literal["host", "operator"]


@dataclass(frozen=True, slots=True)
class RobotsView:
    """The stored state of a host's robots.txt."""

    __pydantic_config__ = SHOWN
    state: RobotsState
    """unknown: never fetched; found: its rules apply; absent: all is allowed; unreachable: nothing is requested of
    the host until it could be read."""
    fetched_at: Moment | None
    retry_at: Moment | None
    """It is not fetched again before."""
    failures: int
    """Consecutive failures."""
    detail: str


@dataclass(frozen=True, slots=True)
class HostView:
    """A host. Durations in seconds."""

    __pydantic_config__ = SHOWN
    name: str
    """name:port"""
    sites: int
    spacing: float
    """Between two requests."""
    crawl_delay: float | None
    """Crawl-delay of its robots.txt."""
    robots: RobotsView
    paused: bool
    paused_until: Moment | None
    """None if it is not paused, or paused until a user ends it."""
    paused_by: PausedBy | None
    """The source of the longest pause."""
    pause_reason: str | None
    refusals: int
    """Consecutive answers with status 429 or 503."""
    last_request_at: Moment | None
    """None: never, or not known since a restart."""
    next_request_at: Moment | None
    """The earliest time; None: no request is scheduled."""
    busy: bool
    """Whether a request is in flight."""
    override: HostOverride | None
    """The operator's last action on its pause."""


@dataclass(frozen=True, slots=True)
class DecileView:
    """Polls whose predicted probability of a change lay in one tenth of 0 to 1; None: there were none."""

    __pydantic_config__ = SHOWN
    polls: int
    predicted: float | None
    """Mean predicted probability."""
    found: float | None
    """Share that found a change."""


@dataclass(frozen=True, slots=True)
class CalibrationView:
    """How well changes were predicted since the active allocator became active, or since the daemon started."""

    __pydantic_config__ = SHOWN
    polls: int
    expected_error: float | None
    """Mean distance between predicted and found, weighted by polls; None: no poll had a prediction."""
    deciles: tuple[DecileView, ...]
    """Ten, by predicted probability: from 0 to 0.1 up to 0.9 to 1."""


@dataclass(frozen=True, slots=True)
class BenefitPointView:
    """Best possible yield of another budget."""

    __pydantic_config__ = SHOWN
    budget: float
    """Polls per second."""
    expected_detections_per_hour: float


ShadowState = Literal["learning", "following", "dropped"]


@dataclass(frozen=True, slots=True)
class ShadowView:
    """An allocator in shadow. It never sees polls that it would have made itself, and is judged by another's belief."""

    __pydantic_config__ = SHOWN
    allocator: str
    state: ShadowState
    expected_detections_per_hour: float | None
    """Of the frequencies that it would poll at, under the belief of the active allocator; None: not computed yet, or
    that one has no belief of rates."""
    reason: str | None
    """Why it was dropped."""


@dataclass(frozen=True, slots=True)
class SignalYieldView:
    """What signals brought in the last hour."""

    __pydantic_config__ = SHOWN
    sources: int
    polls: int
    """Of pages with signal sources."""
    found: int
    """Of these, polls that found a change."""
    polls_after_signal: int
    """Of these, polls before which a signal came."""
    found_after_signal: int
    budget_saved: float | None
    """1 - budget / the budget that would find as much without signals, under the present belief of the rates; for the
    objective changes; None: not known."""


@dataclass(frozen=True, slots=True)
class AllocationView:
    """Yield of the budget under the present belief."""

    __pydantic_config__ = SHOWN
    allocator: str
    objective: str
    deadline: float
    """Seconds within which a change should be found under the objective deadline, of sites without their own."""
    budget: float
    """Polls per second; of several nodes, the share of the one that was asked. All figures are of its sites."""
    utilization: float
    spendable: float
    """Part of the budget that intervals, min_yields and politeness allow to be spent, polls per second."""
    binding: PollLimit
    """What keeps most sites from being polled more often."""
    binding_in_words: str
    price: Known
    """Value of one more poll per second (theta)."""
    expected_detections_per_hour_as_scheduled: Known
    """Like the next two within the same min_intervals, min_yields and politeness."""
    expected_detections_per_hour_uniform: Known
    expected_detections_per_hour_best: Known
    sites: int
    late_sites: int
    noisy_sites: int
    proofs_waiting: int
    """Sites whose change waits for a second poll that proves it."""
    sites_without_text: int
    """Sites whose last answer, since the start, had no text that could be compared: their `last_detail` says why."""
    sites_read_twice: int
    """Sites that were polled at least twice: of the others nothing is learned yet."""
    maximum_intervals_feasible: bool
    """Whether the budget suffices for all max_intervals."""
    calibration: CalibrationView
    one_more_poll_per_second_finds_per_hour: float | None
    """More expected detections per hour, best possible, with a budget of one poll per second more; None: not
    requested, or not known."""
    benefit_curve: tuple[BenefitPointView, ...]
    """Expected detections with budgets of 0.1 to 10 times the current one, by the estimated rates; min_intervals and
    politeness limit them."""
    shadows: tuple[ShadowView, ...]
    signals: SignalYieldView | None = None
    """None: there is no signal source."""
    min_saving: float = 0.0
    """How much sooner a poll of a site of weight and cost 1 has to bring news, s, of sites without their own."""
    median_weight: float | None = None
    """Of the sites; None: there are none."""
    timeliness: Annotated[ExpectedTimeliness, ShownAs(Timeliness)] | None = None
    """How soon changes are found; None under objectives other than delay and deadline."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeView:
    """One of several daemons on one database. Rates are polls per second."""

    __pydantic_config__ = SHOWN
    id: int
    name: str
    version: str
    started_at: Moment
    here: bool
    """Whether it is the one that was asked."""
    drained: bool
    """Whether it is to hold nothing."""
    partitions: int
    """How many it holds."""
    sites: int
    """Of these partitions, as last counted."""
    roles: tuple[str, ...]
    """What it does for all: delivery, sources, jobs, retention."""
    grant: float | None
    """What it may spend at most; None: it has not asked for any yet."""
    target: float | None
    """What it is to have as soon as so much is free."""
    price: float | None
    """What one more poll per second is worth to it."""
    spent: float | None
    """What it did spend over the last minute."""
    silent_seconds: float | None
    """How long ago it reported that, every 3 s as a rule."""
    clock_ahead: float | None
    """How far its clock is ahead of that of the database's server, s; below 0: behind."""
    starts: int
    """How often nodes of its name were started within the last hour."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterView:
    """The nodes of the database, what each holds, and what it may spend."""

    __pydantic_config__ = SHOWN
    partitions: int
    """Of the hosts; 0: the daemon runs alone."""
    unheld: int
    """Partitions that no node holds now: their sites are not polled."""
    budget: float | None
    """Polls per second of all nodes; None: none has asked for a share of it yet."""
    in_force: float | None
    """What all may be spending at most: more than the budget for a moment after it was lowered."""
    nodes_wanted: int
    """How many nodes there should be, by the settings of the one that was asked; 0: any number."""
    connections: int
    """That the database's server has, of all programs."""
    max_connections: int
    """That it allows."""
    nodes: tuple[NodeView, ...]
    """By id; empty: the daemon runs alone."""


@dataclass(frozen=True, slots=True)
class Status:
    """Summary of the daemon for the status line."""

    sites: int
    in_flight: int
    polls: int
    changes: int
    rate: float
    budget: float
    offline: bool
    storage_failure: str | None
    by_state: Mapping[SiteState, int] = field(default_factory=dict)
    """Number of sites by state."""
    loop_lag: float = 0.0
    """How late the event loop ran a timer, s, at worst in the last 15."""


# Committed polls, for clients that watch them; without watchers nothing is kept.

_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class WatchedPolls:
    """What came since a position."""

    position: int
    """To continue from."""
    polls: Sequence[tuple[Poll, str]]
    """The newest of them, oldest first, each with its site's URL."""
    skipped: int
    """How many older ones were left out."""


class PollFeed:
    """Hands on committed polls."""

    def __init__(self) -> None:
        self._polls: deque[tuple[Poll, str]] = deque(maxlen=_KEPT)
        self._position = 0
        self.watchers = 0

    @property
    def position(self) -> int:
        """Number of polls so far, while somebody watched."""
        return self._position

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keeps polls while the block runs."""
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1
            if not self.watchers:
                self._polls.clear()

    def note(self, records: Sequence[PollRecord]) -> None:
        """Takes the polls of a commit."""
        if self.watchers:
            self._polls.extend((record.poll, record.context.url) for record in records)
            self._position += len(records)

    def since(self, position: int, most: int) -> WatchedPolls:
        """Returns the newest polls after a position, at most `most`."""
        came = self._position - position
        if came <= 0:
            return WatchedPolls(self._position, (), 0)
        shown = min(came, most, len(self._polls))
        newest = [self._polls[n] for n in range(len(self._polls) - shown, len(self._polls))]
        return WatchedPolls(self._position, newest, came - shown)
