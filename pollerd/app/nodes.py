"""The parts of a daemon that is one of several nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pollerd.allocation.budget_split import divide_reported
from pollerd.app.live_parts import CommonParts, ExplainingParts, NodeParts, ResultParts
from pollerd.daemon.commit import Journal
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.control.jobs import JobControl
from pollerd.daemon.control.reads import ReadControl
from pollerd.daemon.hubs import HubSubscriber
from pollerd.daemon.nodes.answers import NodeAnswers
from pollerd.daemon.nodes.calls import NodeClient
from pollerd.daemon.nodes.followers import AllocationFollower, Follower, GrantFollower, PartitionLoader, SiteFollower
from pollerd.daemon.nodes.loans import HostBorrower, HostLoans, NodeRedirectPolicies
from pollerd.daemon.nodes.membership import ClusterPart, Membership
from pollerd.daemon.nodes.views import ClusterPollFeed
from pollerd.daemon.notifier import Notifier
from pollerd.daemon.redirects import RedirectPolicies
from pollerd.daemon.robots import RobotsKeeper
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.signals import SignalSources
from pollerd.daemon.sources import SourceReader
from pollerd.daemon.views import PollFeed
from pollerd.fetching.poster import Poster
from pollerd.fetching.settings import FetchSettings
from pollerd.storage.grants import GrantStore
from pollerd.storage.node_news import NewsTable
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.store import Store
from pollerd.telemetry import ClusterInstruments, Instruments


@dataclass(frozen=True, kw_only=True)
class NodeFollowers:
    """The parts that follow what other nodes did."""

    notifier: Notifier
    sources: SourceReader
    jobs: JobControl
    allocation: AllocationControl
    signal_sources: SignalSources
    reads: ReadControl
    hubs: HubSubscriber


def node_parts(
    store: Store,
    cluster: ClusterStore,
    scheduler: SchedulerState,
    *,
    clock: Callable[[], float],
    seconds: float,
    instruments: Instruments,
) -> NodeParts:
    """Returns what asks the other nodes: without proxy, at addresses that their operators named, private ones too.

    seconds: how long a request needs a host at most.
    """
    nodes = NodeClient(
        cluster=cluster,
        make_poster=lambda: Poster(FetchSettings(allow_private=True)),
        clock=clock,
        instruments=ClusterInstruments(instruments.registry),
    )
    return NodeParts(
        cluster=cluster,
        borrower=HostBorrower(cluster=cluster, nodes=nodes, scheduler=scheduler, clock=clock, seconds=seconds),
        grants=GrantStore(database=store.database, divide=divide_reported),
    )


def node_redirects(
    common: CommonParts, borrower: HostBorrower, *, local: RedirectPolicies, robots: RobotsKeeper, journal: Journal
) -> NodeRedirectPolicies:
    """Returns what decides on redirects, and lends this node's hosts."""
    loans = HostLoans(
        cluster=borrower.cluster,
        policies=local,
        permits=borrower.permits,
        sites=common.store.sites,
        scheduler=common.scheduler,
        journal=journal,
        runtime=common.runtime,
    )
    hosts = common.scheduler.hosts
    return NodeRedirectPolicies(local=local, loans=loans, borrower=borrower, robots=robots, hosts=hosts)


def node_answering(
    redirects: NodeRedirectPolicies,
    *,
    explaining: ExplainingParts,
    poll_feed: PollFeed,
    health: DaemonHealth,
    clock: Callable[[], float],
) -> tuple[NodeAnswers, ClusterPollFeed]:
    """Returns what answers the other nodes, and the polls of all nodes. poll_feed: of this node's own polls."""
    answers = NodeAnswers(
        cluster=redirects.borrower.cluster,
        views=explaining.views,
        explainer=explaining.explainer,
        poll_feed=poll_feed,
        health=health,
        loans=redirects.loans,
        clock=clock,
    )
    return answers, ClusterPollFeed(poll_feed, redirects.borrower.nodes)


def cluster_part(
    common: CommonParts,
    node: NodeParts,
    redirects: NodeRedirectPolicies,
    *,
    results: ResultParts,
    explaining: ExplainingParts,
    followers: NodeFollowers,
) -> ClusterPart:
    """Builds the node's membership, and what follows the others."""
    nodes = node.borrower.nodes
    loader = PartitionLoader(
        cluster=node.cluster,
        sites=common.store.sites,
        scheduler=common.scheduler,
        removal=results.removal,
        journal=results.journal,
        loans=redirects.loans,
        clock=common.runtime.clock,
    )
    membership = Membership(
        cluster=node.cluster,
        loader=loader,
        runtime=common.runtime,
        request_seconds=common.client.fetcher.settings.total_timeout_seconds,
        instruments=nodes.instruments,
    )
    grants = GrantFollower(
        store=common.store,
        cluster=node.cluster,
        grants=node.grants,
        scheduler=common.scheduler,
        budget=common.budget,
        forecast=explaining.forecast,
        instruments=nodes.instruments,
    )
    allocation = AllocationFollower(followers.allocation, grants)
    return ClusterPart(
        membership=membership,
        follower=_follower(common, node, loader, allocation, results, followers),
        grants=grants,
        allocation=allocation,
        nodes=nodes,
        borrower=redirects.borrower,
        loans=redirects.loans,
    )


def _follower(
    common: CommonParts,
    node: NodeParts,
    loader: PartitionLoader,
    allocation: AllocationFollower,
    results: ResultParts,
    followers: NodeFollowers,
) -> Follower:
    """Returns what hands the news of other nodes on."""
    sites = SiteFollower(
        cluster=node.cluster,
        store=common.store.sites,
        loader=loader,
        scheduler=common.scheduler,
        site_cache=common.site_cache,
        clock=common.runtime.clock,
    )

    async def look_at_jobs(_: object) -> None:
        followers.jobs.look_again()

    async def look_at_hubs(_: object) -> None:
        followers.hubs.look_again()

    return Follower(
        cluster=node.cluster,
        sites=sites,
        notifier=followers.notifier,
        sources=followers.sources,
        handlers={
            NewsTable.JOB: look_at_jobs,
            NewsTable.SIGNAL_SOURCE: followers.signal_sources.adopt,
            NewsTable.HUB_SUBSCRIPTION: look_at_hubs,
            NewsTable.INTEREST: followers.reads.adopt,
        },
        allocation=allocation,
        outbox_filled=results.outbox_filled,
    )
