"""The interface of the running daemon to the API, the list reader and the status line; they use nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.daemon.allocation.explain import ScheduleExplainer
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.control.hosts import HostControl
from pollerd.daemon.control.notifications import NotificationControl
from pollerd.daemon.control.preview import PreviewControl
from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.control.sources import SourceControl
from pollerd.daemon.control.tags import TagControl
from pollerd.daemon.crawler.report import CollectionReporter
from pollerd.daemon.gauges import Gauges


@dataclass(frozen=True, kw_only=True)
class Control:
    """Views and actions of the daemon, by subject."""

    sites: SiteControl
    sources: SourceControl
    notifications: NotificationControl
    tags: TagControl
    hosts: HostControl
    preview: PreviewControl
    allocation: AllocationControl
    explainer: ScheduleExplainer
    collection: CollectionReporter
    health: DaemonHealth
    gauges: Gauges
