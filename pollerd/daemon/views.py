"""Values of the live loop for the API and the status line."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec import Struct

from pollerd.allocation.objectives import ExpectedTimeliness
from pollerd.model import HostOverride, Poll, SiteState
from pollerd.storage.values import PollRecord


@dataclass(frozen=True, slots=True)
class LiveSite:
    """In-memory values of a site."""

    rate_per_day: float | None
    next_poll_at: float | None
    """Earliest time of its next poll, epoch s; None: none is scheduled at present."""
    learned_half_life: float | None = None
    """Learned from reads of its changes, s; in force where no half_life is given. None: none is."""


@dataclass(frozen=True, slots=True)
class FeedView:
    """What a feed showed when it was last read. Times epoch s, durations s."""

    items: int
    new: int | None
    """How many of the items were new at the last poll; None: it was the first."""
    limited: bool
    """Whether it shows only its newest items, as far as is known."""
    oldest_at: float | None
    newest_at: float | None
    read_at: float
    full_polls: int
    """Number of polls at which every item was new, so that others may have been lost."""
    full_after: float | None
    """In which time as many items come as it shows, at the believed rate; None: unlimited, or not known."""


@dataclass(frozen=True, slots=True)
class ExplanationView:
    """Why a site is polled as it is. Times epoch s, durations s."""

    site_id: int
    allocator: str
    objective: str
    rate_per_day: float | None
    rate_low_per_day: float | None
    rate_high_per_day: float | None
    elapsed: float | None
    change_probability: float | None
    urgency: float | None
    rank: int | None
    """1: the most urgent of all sites; estimated from a sample of 16,384 if there are more."""
    price: float
    budget_share: float | None
    expected_interval: float | None
    next_poll_at: float | None
    next_expected_poll_at: float | None
    believed_unchanged_until: float | None
    """Until then a change is less likely than the site's min_yield, or its announced TTL lasts; None: neither applies
    now."""
    announced_ttl: float | None
    """TTL that the page last announced, s; None: there is none, or it is not respected."""
    why_not_now: str | None
    capped_to_uniform: bool
    failures: int
    notes: dict[str, str]
    """Further notes of the allocator on the site, in words; keys as in `Allocator.notes`."""
    host: str
    """name:port"""
    host_override: HostOverride | None
    """The operator's last action on the host."""
    half_life_in_force: float
    """For the objective `interest`, s: given, learned from reads, or the default; `origins` says which."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each setting comes from: see `inheritance`."""
    mask: tuple[str, ...] = ()
    """Parts of the page that are masked as noise, one line each."""
    feed: FeedView | None = None
    """What it shows, if it is a feed."""


@dataclass(frozen=True, slots=True)
class RobotsView:
    """The stored state of a host's robots.txt."""

    state: str
    """unknown: never fetched; found: its rules apply; absent: all is allowed; unreachable: nothing is, for now."""
    fetched_at: float | None
    retry_at: float | None
    failures: int
    """Consecutive failures."""
    detail: str


@dataclass(frozen=True, slots=True)
class HostView:
    """A host. Times epoch s, durations s."""

    name: str
    """name:port"""
    sites: int
    spacing: float
    """Between two requests."""
    crawl_delay: float | None
    """Crawl-delay of its robots.txt."""
    robots: RobotsView
    paused: bool
    paused_until: float | None
    """None if it is not paused, or paused without limit."""
    paused_by: str | None
    """host or operator: the source of the longest pause."""
    pause_reason: str | None
    refusals: int
    """Consecutive answers with status 429 or 503."""
    last_request_at: float | None
    next_request_at: float | None
    """Earliest time; None: no request is scheduled."""
    busy: bool
    """Whether a request is in flight."""
    override: HostOverride | None


@dataclass(frozen=True, slots=True)
class DecileView:
    """Polls whose predicted probability of a change lay in one tenth of 0 to 1; None: there were none."""

    polls: int
    predicted: float | None
    """Mean predicted probability."""
    found: float | None
    """Share that found a change."""


@dataclass(frozen=True, slots=True)
class CalibrationView:
    """Calibration of the active allocator since it became active, or since the daemon started."""

    polls: int
    expected_error: float | None
    """Mean distance between predicted and found, weighted by polls; None: no poll had a prediction."""
    deciles: tuple[DecileView, ...]
    """From 0 to .1 up to .9 to 1."""


@dataclass(frozen=True, slots=True)
class BenefitPointView:
    """Yield of another budget (polls per second) at the best split."""

    budget: float
    expected_detections_per_hour: float


@dataclass(frozen=True, slots=True)
class ShadowView:
    """A shadow."""

    allocator: str
    state: str
    """learning, following or dropped."""
    expected_detections_per_hour: float | None
    """Of its own schedule, under the belief of the active allocator; None: not known, or that one has no belief."""
    reason: str | None
    """Why it was dropped."""


@dataclass(frozen=True, slots=True)
class SignalYieldView:
    """What signals brought in the last hour."""

    sources: int
    polls: int
    """Of pages with signal sources."""
    found: int
    """Of these, polls that found a change."""
    polls_after_signal: int
    found_after_signal: int
    budget_saved: float | None
    """1 - budget / the budget that would find as much without signals, 0 to 1; None: not known."""


@dataclass(frozen=True, slots=True)
class AllocationView:
    """Yield of the budget under the current belief."""

    allocator: str
    objective: str
    deadline: float
    """Seconds, of sites without their own; counts under the objective `deadline`."""
    budget: float
    utilization: float
    spendable: float
    """Part of the budget that intervals, min_yields and politeness allow to be spent, polls per second."""
    binding: str
    """What limits the polling of most sites: the value of a `PollLimit`."""
    binding_in_words: str
    price: float
    expected_detections_per_hour_as_scheduled: float
    expected_detections_per_hour_uniform: float
    expected_detections_per_hour_best: float
    sites: int
    late_sites: int
    noisy_sites: int
    proofs_waiting: int
    """Sites whose change waits for its proof poll."""
    maximum_intervals_feasible: bool
    """Whether the budget suffices for all max_intervals."""
    calibration: CalibrationView
    one_more_poll_per_second_finds_per_hour: float | None
    """Gain of one more poll per second at the best split; None: not requested."""
    benefit_curve: tuple[BenefitPointView, ...]
    shadows: tuple[ShadowView, ...]
    signals: SignalYieldView | None = None
    """None: there is no signal source."""
    timeliness: ExpectedTimeliness | None = None
    """How soon changes are found; None under objectives that are not about it."""
    missing_nodes: tuple[str, ...] | None = ()
    """Nodes whose sites are left out because they gave no answer; None: who else is there is not known now."""


class NodeStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """How another node is, as it says itself."""

    sites: int
    rate: float
    """Polls per second now."""
    budget: float
    """Polls per second that it may start."""
    by_state: dict[SiteState, int]


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


# The polls as they are committed, for who watches them; without watchers nothing is kept.

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
        self._watchers = 0

    @property
    def position(self) -> int:
        """Number of polls so far, while somebody watched."""
        return self._position

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keeps polls while the block runs."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._polls.clear()

    def note(self, records: Sequence[PollRecord]) -> None:
        """Takes the polls of a commit."""
        if self._watchers:
            self._polls.extend((record.poll, record.context.url) for record in records)
            self._position += len(records)

    def add(self, polls: Sequence[tuple[Poll, str]], skipped: int) -> None:
        """Takes polls, each with its site's URL, of which `skipped` older ones were left out."""
        if self._watchers:
            self._polls.extend(polls)
            self._position += len(polls) + skipped

    def others(self) -> Sequence[NodeStatus]:
        """Returns how other nodes are whose polls are here, too: none."""
        return ()

    def since(self, position: int, most: int) -> WatchedPolls:
        """Returns the newest polls after a position, at most `most`."""
        came = self._position - position
        if came <= 0:
            return WatchedPolls(self._position, (), 0)
        shown = min(came, most, len(self._polls))
        newest = [self._polls[n] for n in range(len(self._polls) - shown, len(self._polls))]
        return WatchedPolls(self._position, newest, came - shown)
