"""What the live loop shows of itself: values for the API and the status line."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.model import HostOverride


@dataclass(frozen=True, slots=True)
class LiveSite:
    """What only the running daemon knows of a site."""

    rate_per_day: float | None
    next_poll_at: float | None
    """The earliest moment of its next poll, epoch s; None: it will not be polled as things stand."""


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
    """1: the most urgent of all sites; of more than 16,384 it is estimated from as many."""
    price: float
    budget_share: float | None
    expected_interval: float | None
    next_poll_at: float | None
    next_expected_poll_at: float | None
    believed_unchanged_until: float | None
    """Until then a change is less likely than the site's min_yield, or the site says that there is none; None: neither
    holds now."""
    announced_ttl: float | None
    """For how long the page last said that it need not be asked again, s; None: it does not, or is not heard."""
    why_not_now: str | None
    capped_to_uniform: bool
    failures: int
    notes: dict[str, str]
    """What else the allocator has to say of the site, in words; keys as `Allocator.notes` names them."""
    host: str
    """name:port"""
    host_override: HostOverride | None
    """What an operator last did to the host."""
    mask: tuple[str, ...] = ()
    """What of the page is noise and does not count, a line each."""


@dataclass(frozen=True, slots=True)
class RobotsView:
    """What is known of a host's robots.txt."""

    state: str
    """unknown: it was never had; found: its rules hold; absent: all is allowed; unreachable: nothing is, for now."""
    fetched_at: float | None
    retry_at: float | None
    failures: int
    """In a row."""
    detail: str


@dataclass(frozen=True, slots=True)
class HostView:
    """What is known of a host. Times epoch s, durations s."""

    name: str
    """name:port"""
    sites: int
    spacing: float
    """Between two requests."""
    crawl_delay: float | None
    """What its robots.txt asks for."""
    robots: RobotsView
    paused: bool
    paused_until: float | None
    """None where it is not paused, or until somebody ends that."""
    paused_by: str | None
    """host or operator: the one that keeps it paused longest."""
    pause_reason: str | None
    refusals: int
    """Answers of status 429 or 503 in a row."""
    last_request_at: float | None
    next_request_at: float | None
    """The earliest moment; None: none is to come."""
    busy: bool
    """A request is under way."""
    override: HostOverride | None


@dataclass(frozen=True, slots=True)
class DecileView:
    """Polls whose predicted probability of a change lay in one tenth of 0 to 1; None: there were none."""

    polls: int
    predicted: float | None
    """The mean of what was predicted."""
    found: float | None
    """The share that found a change."""


@dataclass(frozen=True, slots=True)
class CalibrationView:
    """How well the allocator in charge has foretold changes since it took over, or the daemon started."""

    polls: int
    expected_error: float | None
    """Mean distance between predicted and found, weighted by polls; None: no poll was foretold."""
    deciles: tuple[DecileView, ...]
    """From 0 to .1 up to .9 to 1."""


@dataclass(frozen=True, slots=True)
class BenefitPointView:
    """What the best split of another budget (polls per second) would bring."""

    budget: float
    expected_detections_per_hour: float


@dataclass(frozen=True, slots=True)
class ShadowView:
    """An allocator in shadow."""

    allocator: str
    state: str
    """learning, following or dropped."""
    expected_detections_per_hour: float | None
    """Of its wish, under the belief of the allocator in charge; None: not known, or that one has no belief."""
    reason: str | None
    """Why it was dropped."""


@dataclass(frozen=True, slots=True)
class AllocationView:
    """What the budget brings under the present belief."""

    allocator: str
    objective: str
    budget: float
    utilization: float
    spendable: float
    """What of the budget intervals, min_yields and politeness let be spent, polls per second."""
    binding: str
    """What keeps most sites from being polled more often: a `Limit` by its value."""
    binding_in_words: str
    price: float
    expected_detections_per_hour_as_scheduled: float
    expected_detections_per_hour_uniform: float
    expected_detections_per_hour_best: float
    sites: int
    late_sites: int
    noisy_sites: int
    maximum_intervals_feasible: bool
    """Whether the budget holds all max_intervals."""
    calibration: CalibrationView
    one_more_poll_per_second_finds_per_hour: float | None
    """The difference that one more poll per second would make at the best split; None: not asked for."""
    benefit_curve: tuple[BenefitPointView, ...]
    shadows: tuple[ShadowView, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """One look at the daemon, for the status line."""

    sites: int
    in_flight: int
    polls: int
    changes: int
    rate: float
    budget: float
    offline: bool
    storage_failure: str | None
