"""The parts of a daemon that is one of several nodes."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.allocation.budget_split import divide_reported
from pollerd.app.live_parts import CommonParts, ExplainingParts, HostPermit, NodeParts, ResultParts
from pollerd.daemon.commit import Journal
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.jobs import JobControl
from pollerd.daemon.control.reads import ReadControl
from pollerd.daemon.hubs import HubSubscriber
from pollerd.daemon.nodes.followers import AllocationFollower, Follower, GrantFollower, PartitionLoader, SiteFollower
from pollerd.daemon.nodes.membership import ClusterPart, Membership
from pollerd.daemon.nodes.questions import HolderClient, NodeAnswers
from pollerd.daemon.nodes.shared_hosts import UNWANTED_SECONDS, WRITE_SECONDS, SharedHosts, hold_seconds
from pollerd.daemon.notifier import Notifier
from pollerd.daemon.signals import SignalSources
from pollerd.daemon.sources import SourceReader
from pollerd.storage.grants import GrantStore
from pollerd.storage.node_news import NewsTable
from pollerd.storage.node_questions import NodeQuestionStore
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.shared_hosts import SharedHostStore
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


def node_parts(store: Store, cluster: ClusterStore, *, instruments: Instruments) -> NodeParts:
    """Returns what a daemon needs that is one of several nodes, before all other parts."""
    holders = HolderClient(
        cluster=cluster,
        questions=NodeQuestionStore(database=store.database),
        instruments=ClusterInstruments(instruments.registry),
    )
    grants = GrantStore(database=store.database, divide=divide_reported)
    return NodeParts(cluster=cluster, holders=holders, grants=grants, may_write=HostPermit())


def shared_hosts(common: CommonParts, node: NodeParts, journal: Journal) -> SharedHosts:
    """Returns what claims the hosts that other nodes ask, too; from now on requests are written by its leave."""
    cluster = node.cluster
    store = SharedHostStore(
        database=common.store.database,
        node_id=lambda: cluster.node_id,
        write_seconds=WRITE_SECONDS,
        hold_seconds=hold_seconds(common.client.fetcher.settings.total_timeout_seconds),
        unwanted_seconds=UNWANTED_SECONDS,
    )
    shared = SharedHosts(
        cluster=cluster,
        store=store,
        hosts=common.store.sites.hosts,
        scheduler=common.scheduler,
        journal=journal,
        runtime=common.runtime,
    )
    node.may_write.ask = shared.may_write
    return shared


def cluster_part(
    common: CommonParts,
    node: NodeParts,
    shared: SharedHosts,
    *,
    results: ResultParts,
    explaining: ExplainingParts,
    followers: NodeFollowers,
) -> ClusterPart:
    """Builds the node's membership, and what follows the others."""
    instruments = node.holders.instruments
    loader = PartitionLoader(
        cluster=node.cluster,
        sites=common.store.sites,
        scheduler=common.scheduler,
        removal=results.removal,
        journal=results.journal,
        shared=shared,
        clock=common.runtime.clock,
    )
    membership = Membership(
        cluster=node.cluster,
        loader=loader,
        runtime=common.runtime,
        request_seconds=common.client.fetcher.settings.total_timeout_seconds,
        instruments=instruments,
    )
    grants = GrantFollower(
        store=common.store,
        cluster=node.cluster,
        grants=node.grants,
        scheduler=common.scheduler,
        budget=common.budget,
        forecast=explaining.forecast,
        instruments=instruments,
    )
    allocation = AllocationFollower(followers.allocation, grants)
    return ClusterPart(
        membership=membership,
        follower=_follower(common, node, loader, allocation, results, explaining, followers),
        grants=grants,
        allocation=allocation,
        shared=shared,
    )


def _follower(
    common: CommonParts,
    node: NodeParts,
    loader: PartitionLoader,
    allocation: AllocationFollower,
    results: ResultParts,
    explaining: ExplainingParts,
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

    answers = NodeAnswers(
        cluster=node.cluster, questions=NodeQuestionStore(database=common.store.database), views=explaining.views
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
            NewsTable.NODE_QUESTION: answers.asked,
            NewsTable.NODE_ANSWER: node.holders.answered,
        },
        allocation=allocation,
        outbox_filled=results.outbox_filled,
    )
