"""Builds what takes part in a cluster, for a daemon that is one of several nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pollerd.daemon.allocation.explain import ScheduleExplainer
from pollerd.daemon.allocation.forecast import Forecast
from pollerd.daemon.allocation.site_views import SiteViews
from pollerd.daemon.cluster.allocation_follower import AllocationFollower
from pollerd.daemon.cluster.cluster_part import ClusterPart
from pollerd.daemon.cluster.cluster_poll_feed import ClusterPollFeed
from pollerd.daemon.cluster.follower import Follower
from pollerd.daemon.cluster.grants import GrantFollower
from pollerd.daemon.cluster.loans.borrower import HostBorrower
from pollerd.daemon.cluster.loans.lender import HostLoans
from pollerd.daemon.cluster.loans.redirects import NodeRedirectPolicies
from pollerd.daemon.cluster.membership import Membership
from pollerd.daemon.cluster.node_answers import NodeAnswers
from pollerd.daemon.cluster.node_client import NodeClient
from pollerd.daemon.cluster.partition_loader import PartitionLoader
from pollerd.daemon.cluster.site_follower import SiteFollower
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.control.jobs import JobControl
from pollerd.daemon.control.site_removal import SiteRemoval
from pollerd.daemon.notifying.notifier import Notifier
from pollerd.daemon.polling.budget import Budget
from pollerd.daemon.polling.redirect_policies import RedirectPolicies
from pollerd.daemon.polling.robots_txt import RobotsKeeper
from pollerd.daemon.reads.read_control import ReadControl
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.results.poll_feed import PollFeed
from pollerd.daemon.signals.hubs.hub_subscriber import HubSubscriber
from pollerd.daemon.signals.signal_sources import SignalSources
from pollerd.daemon.sources.reader import SourceReader
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.fetching import FetchSettings, Poster
from pollerd.storage import ClusterStore, GrantStore, NewsTable, Store
from pollerd.telemetry import Instruments
from pollerd.telemetry.cluster_instruments import ClusterInstruments


def host_borrower(
    cluster: ClusterStore,
    scheduler: SchedulerState,
    *,
    clock: Callable[[], float],
    seconds: float,
    instruments: Instruments,
) -> HostBorrower:
    """Returns what asks the other nodes: without proxy, at addresses that their operators named, private ones too.

    seconds: how long a request needs a host at most.
    """
    nodes = NodeClient(
        cluster=cluster,
        make_poster=lambda: Poster(FetchSettings(allow_private=True)),
        clock=clock,
        instruments=ClusterInstruments(instruments.registry),
    )
    return HostBorrower(cluster=cluster, nodes=nodes, scheduler=scheduler, clock=clock, seconds=seconds)


def node_redirects(
    store: Store,
    borrower: HostBorrower,
    *,
    local: RedirectPolicies,
    robots: RobotsKeeper,
    scheduler: SchedulerState,
    journal: Journal,
    runtime: Runtime,
) -> NodeRedirectPolicies:
    """Returns what decides on redirects, and lends this node's hosts."""
    loans = HostLoans(
        cluster=borrower.cluster,
        policies=local,
        permits=borrower.permits,
        sites=store.sites,
        scheduler=scheduler,
        journal=journal,
        runtime=runtime,
    )
    return NodeRedirectPolicies(local=local, loans=loans, borrower=borrower, robots=robots, hosts=scheduler.hosts)


def node_answering(
    cluster: ClusterStore,
    redirects: NodeRedirectPolicies,
    *,
    views: SiteViews,
    explainer: ScheduleExplainer,
    poll_feed: PollFeed,
    health: DaemonHealth,
    runtime: Runtime,
) -> tuple[NodeAnswers, ClusterPollFeed]:
    """Returns what answers the other nodes, and the polls of all nodes. poll_feed: of this node's own polls."""
    answers = NodeAnswers(
        cluster=cluster,
        views=views,
        explainer=explainer,
        poll_feed=poll_feed,
        health=health,
        loans=redirects.loans,
        clock=runtime.clock,
    )
    return answers, ClusterPollFeed(poll_feed, redirects.borrower.nodes)


def cluster_parts(  # noqa: PLR0913 (what follows the other nodes)
    store: Store,
    cluster: ClusterStore,
    *,
    scheduler: SchedulerState,
    site_cache: SiteCache,
    removal: SiteRemoval,
    journal: Journal,
    notifier: Notifier,
    sources: SourceReader,
    jobs: JobControl,
    allocation: AllocationControl,
    signal_sources: SignalSources,
    reads: ReadControl,
    hubs: HubSubscriber,
    grants: GrantStore,
    budget: Budget,
    forecast: Forecast,
    redirects: NodeRedirectPolicies,
    outbox_filled: asyncio.Event,
    request_seconds: float,
    runtime: Runtime,
) -> ClusterPart:
    """Builds the node's membership, and what follows the others. request_seconds: the longest that a request takes."""
    loader = PartitionLoader(
        cluster=cluster,
        sites=store.sites,
        scheduler=scheduler,
        removal=removal,
        journal=journal,
        loans=redirects.loans,
        clock=runtime.clock,
    )
    nodes = redirects.borrower.nodes
    membership = Membership(
        cluster=cluster,
        loader=loader,
        runtime=runtime,
        request_seconds=request_seconds,
        instruments=nodes.instruments,
    )
    followed = SiteFollower(
        cluster=cluster,
        store=store.sites,
        loader=loader,
        scheduler=scheduler,
        site_cache=site_cache,
        clock=runtime.clock,
    )
    granted = GrantFollower(
        store=store,
        cluster=cluster,
        grants=grants,
        scheduler=scheduler,
        budget=budget,
        forecast=forecast,
        instruments=nodes.instruments,
    )
    allocated = AllocationFollower(allocation, granted)

    async def look_at_jobs(_: object) -> None:
        jobs.look_again()

    async def look_at_hubs(_: object) -> None:
        hubs.look_again()

    follower = Follower(
        cluster=cluster,
        sites=followed,
        notifier=notifier,
        sources=sources,
        handlers={
            NewsTable.JOB: look_at_jobs,
            NewsTable.SIGNAL_SOURCE: signal_sources.adopt,
            NewsTable.HUB_SUBSCRIPTION: look_at_hubs,
            NewsTable.INTEREST: reads.adopt,
        },
        allocation=allocated,
        outbox_filled=outbox_filled,
    )
    return ClusterPart(
        membership=membership,
        follower=follower,
        grants=granted,
        allocation=allocated,
        nodes=nodes,
        borrower=redirects.borrower,
        loans=redirects.loans,
    )
