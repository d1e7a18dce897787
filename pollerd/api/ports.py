"""The ports to the daemon.

The running daemon, by subject.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import SourceQuality
from pollerd.lists.hubs import HubVerification
from pollerd.lists.index_now import IndexNowReport
from pollerd.model import Poll, Site, SiteState
from pollerd.planning import BudgetPlan
from pollerd.site_settings import SiteSpec, Tags, TagSettings
from pollerd.storage.hubs import HubSubscription
from pollerd.storage.jobs import Job, JobSpec
from pollerd.storage.notification_values import ChannelSpec, FileResult, RuleSpec, StoredChannel, StoredRule
from pollerd.storage.reads import ReadResult, ReportedRead
from pollerd.storage.signals import ListedDate, ListedSignalSource, SignalSource, SignalSourceSpec
from pollerd.storage.sources import Source, SourceSpec
from pollerd.storage.values import AddResult, ImportCheck, KnownHost, Rebase, RestoreResult, SiteChanges, SiteRestore

# The allocation, plans of the budget, and the collection.


class AllocationPort(Protocol):
    """Shows and changes the allocation. The views have the attributes named in `schemas.allocation`."""

    def view(self) -> object:
        """Returns the present allocation, without the yield of other budgets."""

    async def over_budgets(self) -> object:
        """Returns the present allocation, and the yield of other budgets."""

    async def set(
        self,
        *,
        allocator: str | None = None,
        objective: str | None = None,
        deadline: float | None = None,
        budget: float | None = None,
        shadows: Sequence[str] | None = None,
    ) -> object:
        """Changes the allocation. Raises InvalidValueError."""


class PlanPort(Protocol):
    """Plans the budget."""

    async def plan(self, share: float, within: float, tag: str | None = None) -> BudgetPlan:
        """Returns the budget needed to learn of a share of the changes in time. Raises InvalidValueError."""


class CollectionPort(Protocol):
    """Shows the focused crawler's collection."""

    async def view(self) -> object | None:
        """Returns the attributes of `collection.Collection`; None if no topic was ever set."""


# The other nodes of the database.


class ClusterPort(Protocol):
    """Shows the nodes of the database."""

    async def view(self) -> object:
        """Returns the attributes of `schemas.health.ClusterState`. Raises DatabaseUnavailableError."""


class OtherNodeView(Protocol):
    """How another node is."""

    @property
    def sites(self) -> int:
        """Number of its sites."""

    @property
    def rate(self) -> float:
        """Its polls per second now."""

    @property
    def budget(self) -> float:
        """Polls per second that it may start."""

    @property
    def by_state(self) -> Mapping[SiteState, int]:
        """Number of its sites by state."""


class NodeAnswersPort(Protocol):
    """Answers the other nodes of the database."""

    async def answer(self, signature: str, body: bytes) -> tuple[int, bytes]:
        """Returns status and body. Raises DatabaseUnavailableError."""


# How the daemon is: health, gauges, and the polls as they are committed.


class DaemonStatus(Protocol):
    """What the daemon is doing."""

    @property
    def sites(self) -> int:
        """Number of sites."""

    @property
    def polls(self) -> int:
        """Number of polls so far."""

    @property
    def rate(self) -> float:
        """Polls per second now."""

    @property
    def budget(self) -> float:
        """Polls per second allowed."""

    @property
    def offline(self) -> bool:
        """Whether our own link is believed to be down."""

    @property
    def storage_failure(self) -> str | None:
        """Why the database takes no commits; None: it does."""

    @property
    def by_state(self) -> Mapping[SiteState, int]:
        """Number of sites by state."""

    @property
    def loop_lag(self) -> float:
        """How late the event loop ran a timer, s, at worst in the last 15."""


class HealthPort(Protocol):
    """Answers the health checks."""

    def alive(self) -> bool:
        """Returns whether the loop runs."""

    async def not_ready(self) -> str | None:
        """Returns why the daemon cannot work; None if it can."""

    def status(self) -> DaemonStatus:
        """Returns the daemon's current state."""


class WatchedPollsView(Protocol):
    """What came since a position."""

    @property
    def position(self) -> int:
        """To continue from."""

    @property
    def polls(self) -> Sequence[tuple[Poll, str]]:
        """The newest of them, oldest first, each with its site's URL."""

    @property
    def skipped(self) -> int:
        """How many older ones were left out."""


class PollFeedPort(Protocol):
    """The polls as they are committed."""

    @property
    def position(self) -> int:
        """Where it stands."""

    def watching(self) -> AbstractContextManager[None]:
        """Keeps polls while the block runs."""

    def since(self, position: int, most: int) -> WatchedPollsView:
        """Returns the newest polls after a position, at most `most`."""

    def others(self) -> Sequence[OtherNodeView]:
        """Returns how the other nodes are, while somebody watches; empty without any."""


class GaugesPort(Protocol):
    """Updates the gauges."""

    def refresh(self) -> None:
        """Sets the gauges of the daemon's tables; called before the metrics are read."""


# Rules and channels.


class ChannelAnswer(Protocol):
    """What came of a test message."""

    @property
    def kind(self) -> StrEnum:
        """How it ended."""

    @property
    def status(self) -> int | None:
        """HTTP or SMTP code."""

    @property
    def detail(self) -> str:
        """In words, without secrets."""


class NotificationsPort(Protocol):
    """Changes rules and channels. All raise InvalidValueError for what cannot be."""

    async def add_rule(self, document: Mapping[str, Any]) -> StoredRule:
        """Adds a rule. Raises DuplicateError with the existing id."""

    async def change_rule(self, rule_id: int, document: Mapping[str, Any]) -> StoredRule:
        """Sets all of a rule. Raises NotFoundError, DuplicateError."""

    async def mute_rule(self, rule_id: int, until: float | None) -> StoredRule:
        """Mutes a rule until that time. Raises NotFoundError."""

    async def delete_rule(self, rule_id: int) -> None:
        """Deletes a rule. Raises NotFoundError."""

    async def check_unsubscribing(self, channel_id: int, rule_id: int, token: str) -> None:
        """Raises NotFoundError unless the token is that of a link in a mail."""

    async def unsubscribe(self, channel_id: int, rule_id: int, token: str) -> None:
        """Takes the channel out of the rule. Raises NotFoundError."""

    async def add_channel(
        self, name: str, kind: str, given: Mapping[str, Any], *, enabled: bool = True
    ) -> StoredChannel:
        """Adds a channel. Raises DuplicateError with the existing id."""

    async def change_channel(
        self,
        channel_id: int,
        given: Mapping[str, Any] | None,
        *,
        name: str | None = None,
        enabled: bool | None = None,
    ) -> StoredChannel:
        """Changes a channel; given: its new settings, None: as before. Raises NotFoundError, DuplicateError."""

    async def delete_channel(self, channel_id: int, *, from_rules: bool = False) -> None:
        """Deletes a channel. Raises NotFoundError."""

    async def put_from_file(self, channels: Sequence[ChannelSpec], rules: Sequence[RuleSpec]) -> FileResult:
        """Makes the channels and rules of the configuration file these."""

    async def restore(self, channels: Sequence[ChannelSpec], rules: Mapping[RuleSpec, float | None]) -> FileResult:
        """Adds or changes channels and rules of an export, all or none; rules: until when each is muted."""

    async def rotate_secret(self, channel_id: int, overlap: float) -> StoredChannel:
        """Gives a webhook a new secret. Raises NotFoundError."""

    async def try_channel(self, channel_id: int) -> ChannelAnswer:
        """Sends a test message. Raises NotFoundError."""

    async def resend(self, *, ids: Sequence[int] | None = None, channel_id: int | None = None) -> int:
        """Makes dead notices wait anew; returns how many."""

    def shown(self, row: StoredChannel) -> dict[str, Any]:
        """Returns the settings of a channel without secrets."""

    def not_fenced(self, row: StoredChannel) -> str | None:
        """Returns why the kernel does not hold the plugins of an Apprise channel; None: it does, or there are none."""

    def signing_secret(self, row: StoredChannel) -> str | None:
        """Returns the secret by which a webhook signs, for its one showing."""


# What programs tell of sites: changes, by signal sources, WebSub hubs and IndexNow, and reads.


class SignalSourcesSetPort(Protocol):
    """What became of signal sources that were named."""

    added: list[str]
    changed: list[str]


class HubsPort(Protocol):
    """Answers WebSub hubs."""

    async def at(self, callback: str) -> HubSubscription | None:
        """Returns the subscription with this end of its callback URL."""

    async def verify(self, callback: str, asked: HubVerification) -> str | None:
        """Returns what is answered to a hub that verifies; None: it is refused."""

    async def deliver(
        self, one: HubSubscription, receive: Callable[[], Awaitable[bytes]], content_type: str | None, signature: str
    ) -> str:
        """Reads what a hub sent, by `receive`; returns what became of it. Raises TooManyError before."""


class IndexNowPort(Protocol):
    """Takes reports in IndexNow's form."""

    @property
    def allowed(self) -> bool:
        """Whether a setting allows them."""

    @property
    def bodies(self) -> asyncio.Semaphore:
        """Held while a body is read: so many are at once."""

    async def take(self, report: IndexNowReport) -> str:
        """Takes a report; returns "taken", "waiting", "ignored" or "refused". Raises TooManyError."""


class SignalsPort(Protocol):
    """Adds and removes signal sources, and takes reports."""

    async def add(self, spec: SignalSourceSpec) -> SignalSource:
        """Adds a signal source. Raises DuplicateError with the existing id, InvalidValueError without its site."""

    async def delete(self, source_id: int) -> None:
        """Deletes a signal source. Raises NotFoundError, and InvalidValueError for one of the list."""

    async def restore(self, listed: Sequence[ListedSignalSource]) -> SignalSourcesSetPort:
        """Adds or changes signal sources of an export; those whose sites are not there are left out."""

    async def report(self, name: str, reports: Sequence[ListedDate]) -> tuple[int, int]:
        """Takes reports; returns how many URLs were news, and not. Raises TooManyError, InvalidValueError."""

    def quality(self, source_id: int) -> SourceQuality | None:
        """Returns what was learned of a signal source; None: nothing."""


class ReadsPort(Protocol):
    """Takes reports of reads, and forgets them."""

    async def report(self, name: str, reads: Sequence[ReportedRead], complete_until: float | None = None) -> ReadResult:
        """Takes a report. Raises TooManyError before anything is looked up, InvalidValueError for its times."""

    async def forget(self, site_id: int) -> None:
        """Forgets the reads of a site's changes. Raises NotFoundError."""


# Sites, their hosts and tags, and what is done to many of them.


class LiveView(Protocol):
    """In-memory values of a site."""

    @property
    def rate_per_day(self) -> float | None:
        """Believed changes per day."""

    @property
    def next_poll_at(self) -> float | None:
        """Earliest time of the next poll, epoch s."""

    @property
    def learned_half_life(self) -> float | None:
        """Learned from reads, s."""


class HostsPort(Protocol):
    """Shows hosts, with the attributes named in `schemas.hosts`, and pauses them."""

    async def views(self, known: Sequence[KnownHost]) -> Sequence[object]:
        """Returns the current state of the hosts."""

    def ids(self, *, paused: bool | None, unreachable: bool | None) -> NDArray[np.int64] | None:
        """Returns ids of the hosts that match; None: no filter is given."""

    async def override(self, name: str, *, paused: bool, until: float | None, by: str) -> object:
        """Pauses a host or ends its pause. Raises NotFoundError, InvalidValueError."""


class SitesPort(Protocol):
    """Adds, changes and removes sites. The result of `explain` has the attributes of `schemas.explanation`."""

    async def add(self, specs: Sequence[SiteSpec], *, respect_deleted: bool = False) -> AddResult:
        """Adds new sites."""

    async def add_one(self, spec: SiteSpec) -> Site:
        """Adds one site. Raises DuplicateError with the existing id."""

    async def would_add(self, specs: Sequence[SiteSpec]) -> ImportCheck:
        """Returns what adding these sites would do, without doing it."""

    async def restore(self, pieces: Callable[[], Iterator[list[SiteRestore]]]) -> RestoreResult:
        """Adds or changes all of them or none. Raises InvalidValueError."""

    async def update(self, site_id: int, changes: SiteChanges) -> Site:
        """Changes a site. Raises NotFoundError, DuplicateError."""

    async def delete(self, site_id: int) -> None:
        """Deletes a site. Raises NotFoundError."""

    async def poll_now(self, site_id: int) -> Site:
        """Has a site polled next. Raises NotFoundError."""

    async def pause_all(self, tag: str | None, paused: bool, *, by: str) -> int:
        """Pauses or resumes all sites, or all with a tag; returns how many changed."""

    async def pause(self, site_id: int, paused: bool) -> Site:
        """Pauses or resumes a site. Raises NotFoundError."""

    async def shown(self, site_ids: Sequence[int]) -> Mapping[int, LiveView]:
        """Returns in-memory values, or stored ones of sites of other nodes; unknown sites are left out."""

    async def current(self, site_id: int) -> LiveView | None:
        """Returns the in-memory values of a site, of whichever node; None: there are none, or none gives them."""

    async def explain(self, site_id: int) -> object:
        """Explains why a site is polled as it is. Raises NotFoundError, HolderUnavailableError."""


class JobsPort(Protocol):
    """Does one thing to many sites."""

    async def start(self, spec: JobSpec, *, by: str) -> Job:
        """Starts a job; a small one has ended then. Raises InvalidValueError."""

    async def undo(self, job_id: int, *, by: str) -> Job:
        """Takes back what a job did. Raises NotFoundError, InvalidValueError if it cannot be undone."""


class PreviewPort(Protocol):
    """Previews selections. The results have the attributes of `schemas.selections`."""

    async def of_url(self, wanted: SiteSpec) -> object:
        """Returns what its selections keep of a page, which is got now. Raises InvalidValueError."""

    async def of_stored(self, site_id: int, selections: str) -> object:
        """Returns what they keep of a site's stored content. Raises NotFoundError, InvalidValueError."""


class TagsPort(Protocol):
    """Settings of tags."""

    def all(self) -> Tags:
        """Returns the tags that have settings, by name."""

    def get(self, name: str) -> TagSettings:
        """Returns the settings of a tag. Raises NotFoundError."""

    async def put(self, given: TagSettings, *, by: str, rebase: Rebase | None = None) -> TagSettings:
        """Gives a tag settings in place of those that it had. Raises InvalidValueError."""

    async def delete(self, name: str, *, by: str) -> None:
        """Takes the settings of a tag away. Raises NotFoundError."""


# Sitemaps and feeds whose pages become sites.


class SourcesPort(Protocol):
    """Adds, changes and removes sources of sites."""

    async def add(self, spec: SourceSpec, *, after: float = 0.0) -> Source:
        """Adds a source, to be read after so many seconds. Raises DuplicateError with the existing id."""

    async def update(self, source_id: int, spec: SourceSpec) -> Source:
        """Sets the settings of a source, but for URL and kind. Raises NotFoundError."""

    async def delete(self, source_id: int, *, remove_sites: bool = False) -> int:
        """Deletes a source, and perhaps its sites; returns how many of these. Raises NotFoundError."""

    async def read_now(self, source_id: int) -> Source:
        """Has a source read next. Raises NotFoundError."""


class ControlPort(Protocol):
    """The running daemon, by subject."""

    @property
    def sites(self) -> SitesPort:
        """The sites and their polling."""

    @property
    def reads(self) -> ReadsPort:
        """Reads of changes."""

    @property
    def jobs(self) -> JobsPort:
        """What is done to many sites."""

    @property
    def preview(self) -> PreviewPort:
        """Previews of selections."""

    @property
    def sources(self) -> SourcesPort:
        """The sitemaps and feeds whose pages become sites."""

    @property
    def signals(self) -> SignalsPort:
        """The signal sources."""

    @property
    def hubs(self) -> HubsPort:
        """The callbacks of WebSub hubs."""

    @property
    def index_now(self) -> IndexNowPort:
        """Reports in IndexNow's form."""

    @property
    def notifications(self) -> NotificationsPort:
        """Rules and channels."""

    @property
    def tags(self) -> TagsPort:
        """The settings of tags."""

    @property
    def hosts(self) -> HostsPort:
        """Views of hosts, and actions on them."""

    @property
    def allocation(self) -> AllocationPort:
        """The allocation of the budget."""

    @property
    def planner(self) -> PlanPort:
        """The planning of the budget."""

    @property
    def cluster(self) -> ClusterPort:
        """The nodes of the database."""

    @property
    def collection(self) -> CollectionPort:
        """The focused crawler's collection."""

    @property
    def health(self) -> HealthPort:
        """The daemon's health."""

    @property
    def poll_feed(self) -> PollFeedPort:
        """The polls as they are committed."""

    @property
    def node_answers(self) -> NodeAnswersPort | None:
        """Answers the other nodes; None: the daemon runs alone."""

    @property
    def gauges(self) -> GaugesPort:
        """The metrics that are read from its tables."""
