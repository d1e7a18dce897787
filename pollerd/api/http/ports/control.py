"""The running daemon, by subject."""

from __future__ import annotations

from typing import Protocol

from pollerd.api.http.ports.allocation import AllocationPort, CollectionPort, PlanPort
from pollerd.api.http.ports.cluster import ClusterPort, NodeAnswersPort
from pollerd.api.http.ports.health import GaugesPort, HealthPort, PollFeedPort
from pollerd.api.http.ports.notifications import NotificationsPort
from pollerd.api.http.ports.signals import HubsPort, IndexNowPort, ReadsPort, SignalsPort
from pollerd.api.http.ports.sites import HostsPort, JobsPort, PreviewPort, SitesPort, TagsPort
from pollerd.api.http.ports.sources import SourcesPort


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
