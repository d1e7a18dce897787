"""The running daemon as the API, the list reader and the status line see it; they never reach further in."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.daemon.allocation.explain import ScheduleExplainer
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.control.hosts import HostControl
from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.crawler.report import CollectionReporter
from pollerd.daemon.gauges import Gauges


@dataclass(frozen=True, kw_only=True)
class Control:
    """What may be done to the daemon and seen of it, by subject."""

    sites: SiteControl
    hosts: HostControl
    allocation: AllocationControl
    explainer: ScheduleExplainer
    collection: CollectionReporter
    health: DaemonHealth
    gauges: Gauges
