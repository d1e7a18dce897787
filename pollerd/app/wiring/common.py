"""What the parts of every room use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pollerd.daemon.crawler.hook import PageHook
from pollerd.daemon.polling.budget import Budget
from pollerd.daemon.polling.in_flight import InFlight
from pollerd.daemon.polling.pages.client import PageClient
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.scheduling import Chooser
from pollerd.storage import ClusterStore, GrantStore, Store

if TYPE_CHECKING:  # loaded where there are several nodes
    from pollerd.daemon.cluster.loans.borrower import HostBorrower


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """What a daemon has that is one of several nodes."""

    cluster: ClusterStore
    borrower: HostBorrower
    """Of hosts of other nodes."""
    grants: GrantStore


@dataclass(frozen=True, kw_only=True)
class CommonParts:
    """State, storage and what asks the sites: built first, used by the parts of every room."""

    store: Store
    scheduler: SchedulerState
    chooser: Chooser
    client: PageClient
    budget: Budget
    hook: PageHook
    site_cache: SiteCache
    in_flight: InFlight
    node: NodeParts | None
    """None: the daemon is alone."""
    runtime: Runtime
