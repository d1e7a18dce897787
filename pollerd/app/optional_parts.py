"""Builds the parts that not every daemon has: nodes, delivery, signals, sources.

Builds what takes part in a cluster, for a daemon that is one of several nodes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pollerd.allocation.budget_split import divide_reported
from pollerd.app.live_parts import CommonParts, ExplainingParts, NodeParts, PollingParts, ResultParts
from pollerd.daemon.announcing import Announcer
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.control.jobs import JobControl
from pollerd.daemon.control.reads import ReadControl
from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.hubs import HubSubscriber
from pollerd.daemon.journal import Journal
from pollerd.daemon.nodes.answers import NodeAnswers
from pollerd.daemon.nodes.calls import NodeClient
from pollerd.daemon.nodes.followers import AllocationFollower, Follower, GrantFollower, PartitionLoader, SiteFollower
from pollerd.daemon.nodes.loans import HostBorrower, HostLoans, NodeRedirectPolicies
from pollerd.daemon.nodes.membership import ClusterPart, Membership
from pollerd.daemon.nodes.views import ClusterPollFeed
from pollerd.daemon.notifier import DaemonEvents, Delivers, DeliveryWatch, FailingWatch, Notifier
from pollerd.daemon.redirects import RedirectPolicies
from pollerd.daemon.robots import RobotsKeeper
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.signals import SignalSources
from pollerd.daemon.sources import ReadsSources, SourceReader
from pollerd.daemon.views import PollFeed
from pollerd.errors import ConfigError
from pollerd.fetching.guard import Guard
from pollerd.fetching.poster import Poster
from pollerd.fetching.settings import FetchSettings
from pollerd.notifications.channels.channel import ChannelEnvironment
from pollerd.notifications.channels.mail import MAIL
from pollerd.notifications.channels.settings import make_channel
from pollerd.notifications.composing import Composer
from pollerd.notifications.delivery import ChannelSender, DeliveryLoop, Pace
from pollerd.notifications.settings import NotificationSettings
from pollerd.notifications.stored_channels import look_of, opened, template_of
from pollerd.storage.grants import GrantStore
from pollerd.storage.node_session import NewsTable
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.notification_values import StoredChannel
from pollerd.storage.notifications import NotificationStore
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


# Builds the delivery of notifications, with the first channel.

_CONNECTIONS = 64


def delivery_loop(
    store: NotificationStore,
    events: DaemonEvents,
    announcer: Announcer,
    filled: asyncio.Event,
    settings: NotificationSettings,
    runtime: Runtime,
) -> DeliveryLoop:
    """Returns the loop that delivers on all channels. `filled`: set when there is something new to send."""
    work, render = runtime.workers.do, runtime.templates.do
    composer = Composer(store=store, work=work, render=render, public_url=settings.base_url)
    watch = DeliveryWatch(events=events, announcer=announcer, instruments=runtime.instruments)
    fetching = FetchSettings(
        allow_private=settings.allow_private_channels,
        max_connections=_CONNECTIONS,
        ca_file=settings.ca_file,
        contact=settings.contact,
        proxy=settings.proxy,
    )
    poster = Poster(fetching)
    environment = ChannelEnvironment(
        guard=Guard(settings.allow_private_channels),
        poster=poster,
        host=settings.host,
        link=settings.base_url,
        tls=tls_context(settings.ca_file),
    )

    def make_sender(row: StoredChannel) -> ChannelSender:
        known = opened(row.spec)
        return ChannelSender(
            row,
            make_channel(known.channel.settings, known.channel.secrets, environment),
            pace=Pace(group_from=known.options.group_from, per_minute=known.options.per_minute),
            store=store,
            compose=partial(
                composer.compose,
                look=look_of(known, settings.base_url),
                template=template_of(known),
                has_links=row.spec.kind == MAIL,
            ),
            watch=watch,
            clock=runtime.clock,
        )

    return DeliveryLoop(
        store=store,
        make_sender=make_sender,
        filled=filled,
        close=poster.close,
        clock=runtime.clock,
    )


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Returns how servers of mail and NATS are verified. Raises ConfigError for a file that cannot be loaded."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:
            raise ConfigError(f"ca_file: {ca_file} cannot be loaded: {error.strerror}") from error
    return context


# Builds what notifies: events of the daemon, and the delivery, which is loaded with the first channel.


def notifier_of(
    common: CommonParts, results: ResultParts, explaining: ExplainingParts, settings: NotificationSettings
) -> Notifier:
    """Returns what keeps rules and channels, watches for events, and delivers."""
    store, runtime, filled = common.store, common.runtime, results.outbox_filled
    daemon_events = DaemonEvents(
        store=store.notifications,
        announcer=results.announcer,
        late_sites=explaining.explainer.late_sites,
        filled=filled,
        runtime=runtime,
    )
    failing_watch = FailingWatch(
        store=store,
        scheduler=common.scheduler,
        announcer=results.announcer,
        journal=results.journal,
        site_cache=common.site_cache,
        filled=filled,
        runtime=runtime,
    )

    def delivery() -> Delivers:
        # what a daemon without channels does not need

        return delivery_loop(store.notifications, daemon_events, results.announcer, filled, settings, runtime)

    return Notifier(
        store=store.notifications,
        announcer=results.announcer,
        journal=results.journal,
        site_cache=common.site_cache,
        make_delivery=delivery,
        watchers=(daemon_events, failing_watch),
        runtime=runtime,
    )


# Builds what reads sources of sites: its parts are loaded when the first source is due.


def source_reader(common: CommonParts, polling: PollingParts, results: ResultParts, sites: SiteControl) -> SourceReader:
    """Returns what reads sources. sites: adds and removes what they list."""

    def readings() -> ReadsSources:
        from pollerd.app.source_readings import source_readings  # what a daemon without sources does not need

        return source_readings(
            store=common.store.sources,
            scheduler=common.scheduler,
            sites=sites,
            requests=polling.requests,
            outage_filter=results.outage_filter,
            runtime=common.runtime,
        )

    return SourceReader(store=common.store.sources, make_reading=readings, runtime=common.runtime)
