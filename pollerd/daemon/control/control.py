"""The interface of the running daemon to the API, the list reader and the status line; they use nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.daemon.collection import CollectionReporter
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.cluster import ClusterControl
from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.control.hosts import HostControl
from pollerd.daemon.control.jobs import JobControl
from pollerd.daemon.control.notifications import NotificationControl
from pollerd.daemon.control.preview import PreviewControl
from pollerd.daemon.control.reads import ReadControl
from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.control.sources import SourceControl
from pollerd.daemon.control.tags import TagControl
from pollerd.daemon.explain import ScheduleExplainer
from pollerd.daemon.gauges import Gauges
from pollerd.daemon.hubs import HubCallbacks
from pollerd.daemon.index_now import IndexNowReports
from pollerd.daemon.planner import Planner
from pollerd.daemon.signal_control import SignalControl
from pollerd.daemon.views import PollFeed


@dataclass(frozen=True, kw_only=True)
class Control:
    """Views and actions of the daemon, by subject."""

    sites: SiteControl
    jobs: JobControl
    sources: SourceControl
    signals: SignalControl
    reads: ReadControl
    hubs: HubCallbacks
    index_now: IndexNowReports
    notifications: NotificationControl
    tags: TagControl
    hosts: HostControl
    preview: PreviewControl
    allocation: AllocationControl
    planner: Planner
    cluster: ClusterControl
    explainer: ScheduleExplainer
    collection: CollectionReporter
    health: DaemonHealth
    poll_feed: PollFeed
    gauges: Gauges
