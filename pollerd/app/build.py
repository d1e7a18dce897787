"""The composition root, which builds the live daemon part by part, in the order of their dependencies.

`live_parts` builds the parts of every daemon, `nodes` and `delivery` optional ones; here is the order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import pollerd
from pollerd.allocation import registry
from pollerd.app.live_parts import (
    CommonParts,
    ExplainingParts,
    NodeParts,
    PollingParts,
    ResultParts,
    SignalParts,
    explaining_parts,
    index_now_reports,
    notifier_of,
    polling_parts,
    result_parts,
    signal_parts,
    source_reader,
)
from pollerd.app.rooms import CRAWLER
from pollerd.daemon.budget import Budget
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.cluster import ClusterControl
from pollerd.daemon.control.control import Control
from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.control.hosts import HostControl
from pollerd.daemon.control.jobs import JobControl, ManySites
from pollerd.daemon.control.notifications import NotificationControl
from pollerd.daemon.control.preview import PreviewControl
from pollerd.daemon.control.reads import ReadControl
from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.control.sources import SourceControl
from pollerd.daemon.control.tags import TagControl
from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.daemon import Daemon, Parts
from pollerd.daemon.faults import Faults, StorageHealth
from pollerd.daemon.nodes.membership import ClusterPart
from pollerd.daemon.notifier import Notifier
from pollerd.daemon.pages import PageClient, paused_hosts
from pollerd.daemon.planner import Planner
from pollerd.daemon.poll import InFlight
from pollerd.daemon.process import ObservationGaps, SteadyClock
from pollerd.daemon.roles import Roles
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.settings import DaemonSettings, SignalSettings
from pollerd.daemon.signal_reader import IndexChildren
from pollerd.daemon.sources import SourceReader
from pollerd.daemon.stages import SiteCache
from pollerd.daemon.startup import blind_while_stopped, check_weights, last_start, restore, restore_node
from pollerd.daemon.unchanged import still_unchanged
from pollerd.daemon.workers import TEMPLATE_MEMORY_BYTES, TEMPLATE_SECONDS, WorkerPool, workers_that_fit
from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.settings import FetchSettings
from pollerd.notifications.settings import NotificationSettings
from pollerd.rendering.settings import RenderingSettings
from pollerd.scheduling.choice import Chooser
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.store import Store
from pollerd.storage.values import RunInfo
from pollerd.telemetry import Instruments

if TYPE_CHECKING:
    from pollerd.crawler.topics import TopicSettings
    from pollerd.rendering.renderer import Renderer


# The interface of the running daemon: its views and actions, by subject.


def site_control(common: CommonParts, results: ResultParts, explaining: ExplainingParts) -> SiteControl:
    """Returns what adds, changes and removes sites."""
    return SiteControl(
        store=common.store.sites,
        scheduler=common.scheduler,
        site_cache=common.site_cache,
        removal=results.removal,
        waiting=(results.journal, results.outage_filter),
        views=explaining.views,
        clock=common.runtime.clock,
    )


def control_of(  # noqa: PLR0913 (all rooms meet here)
    common: CommonParts,
    *,
    settings: SignalSettings,
    signals: SignalParts,
    results: ResultParts,
    polling: PollingParts,
    explaining: ExplainingParts,
    sites: SiteControl,
    sources: SourceReader,
    notifier: Notifier,
    notifying: NotificationSettings,
) -> Control:
    """Returns the interface that the API, the list reader and the status line use."""
    store, scheduler, runtime = common.store, common.scheduler, common.runtime
    requests, clock = polling.requests, runtime.clock
    return Control(
        sites=sites,
        jobs=_job_control(common, results),
        sources=SourceControl(store=store.sources, sites=sites, reader=sources, clock=clock),
        signals=signals.control,
        hubs=signals.callbacks,
        reads=ReadControl(store=store, scheduler=scheduler, runtime=runtime),
        index_now=index_now_reports(store.signals, signals.control, requests, settings, runtime),
        preview=PreviewControl(store=store, requests=requests, runtime=runtime),
        notifications=NotificationControl(
            store=store.notifications, notifier=notifier, settings=notifying, runtime=runtime
        ),
        tags=TagControl(store=store.sites.tags, scheduler=scheduler, site_cache=common.site_cache, clock=clock),
        hosts=HostControl(store=store.sites.hosts, scheduler=scheduler, journal=results.journal, runtime=runtime),
        allocation=_allocation_control(common, results, explaining),
        cluster=ClusterControl(store.cluster, None if common.node is None else common.node.grants),
        planner=Planner(scheduler=scheduler, tags=store.sites.tags, history=store.history),
        explainer=explaining.explainer,
        collection=explaining.collection,
        poll_feed=results.poll_feed,
        health=_health(common, results, polling),
        gauges=explaining.gauges,
    )


def _health(common: CommonParts, results: ResultParts, polling: PollingParts) -> DaemonHealth:
    return DaemonHealth(
        store=common.store,
        scheduler=common.scheduler,
        poller=polling.poller,
        in_flight=common.in_flight,
        outage_filter=results.outage_filter,
        budget=common.budget,
        runtime=common.runtime,
    )


def _job_control(common: CommonParts, results: ResultParts) -> JobControl:
    store, scheduler, clock = common.store, common.scheduler, common.runtime.clock
    many = ManySites(
        store=store.sites,
        scheduler=scheduler,
        site_cache=common.site_cache,
        removal=results.removal,
        clock=clock,
    )
    return JobControl(jobs=store.jobs, sites=store.sites, many=many, clock=clock, alone=scheduler.alone)


def _allocation_control(common: CommonParts, results: ResultParts, explaining: ExplainingParts) -> AllocationControl:
    return AllocationControl(
        store=common.store,
        scheduler=common.scheduler,
        budget=common.budget,
        journal=results.journal,
        shadows=explaining.shadows,
        explainer=explaining.explainer,
        runtime=common.runtime,
    )


MakeClock = Callable[[Callable[[float], None]], SteadyClock]
"""Creates the daemon's clock; the argument is called with the seconds by which the wall clock was set ahead."""


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """User settings of the live daemon."""

    daemon: DaemonSettings = field(default_factory=DaemonSettings)
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    fetching: FetchSettings = field(default_factory=FetchSettings)
    topic: TopicSettings | None = None
    """Topic of the collection; None: links are not followed."""
    seeds: Sequence[str] = ()
    """Normalised start URLs of a new collection."""
    rendering: RenderingSettings | None = None
    """The browser that renders pages; None, or without one: pages are only fetched."""
    notifying: NotificationSettings = field(default_factory=NotificationSettings)
    signals: SignalSettings = field(default_factory=SignalSettings)


def _clock(on_set: Callable[[float], None]) -> SteadyClock:
    return SteadyClock(on_set=on_set)


@contextlib.asynccontextmanager
async def live_daemon(
    store: Store,
    settings: LiveSettings,
    instruments: Instruments,
    rng: np.random.Generator,
    *,
    health: StorageHealth | None = None,
    make_clock: MakeClock = _clock,
) -> AsyncIterator[Daemon]:
    """Builds a daemon with the stored state; it must run within the context.

    health: tracks how the database answers; None: the daemon creates one. Raises ConfigError if the allocator cannot
    hold the stored sites or cannot weight sites by relevance, if the stored collection is on another topic, and if a
    new one has no seeds.
    """
    scheduler = _scheduler(store, settings, rng)
    clock = make_clock(scheduler.clock_set)
    node = _node(store, instruments)
    fetcher = Fetcher(
        settings.fetching,
        clock=clock,
        on_sent=scheduler.hosts.sent,
        before_repeat=lambda host: asyncio.sleep(scheduler.hosts.spacing_left_at(host, clock())),
        may_write=None if node is None else node.may_write,
    )
    async with fetcher, _renderer(settings, scheduler.hosts, clock) as renderer:
        client = PageClient(fetcher=fetcher, renderer=renderer, clock=clock)
        run = await _restored(store, scheduler, settings, rng, clock)
        runtime = await _runtime(store, settings, run, clock=clock, rng=rng, instruments=instruments, health=health)
        common = await _common(store, scheduler, client, node, runtime, run, settings)
        parts = _parts(common, settings)
        await parts.notifier.load()
        await parts.signals.load()
        yield Daemon(parts)


def _scheduler(store: Store, settings: LiveSettings, rng: np.random.Generator) -> SchedulerState:
    """Returns the state without sites, with the allocator."""
    daemon = settings.daemon
    allocator = registry.create(
        daemon.allocator, budget=daemon.budget, objective=daemon.objective, rng=rng, deadline=daemon.deadline
    )
    if settings.topic is not None:
        check_weights(daemon.allocator, allocator)
    return SchedulerState(
        settings=settings.scheduling,
        allocator_name=daemon.allocator,
        allocator=allocator,
        objective=daemon.objective,
        deadline=daemon.deadline,
        alone=store.cluster is None,
    )


def _node(store: Store, instruments: Instruments) -> NodeParts | None:
    """Returns what a daemon has that is one of several nodes; None: it is alone."""
    if store.cluster is None:
        return None
    from pollerd.app.nodes import node_parts  # what a daemon that is alone does not need

    return node_parts(store, store.cluster, instruments=instruments)


async def _restored(
    store: Store, scheduler: SchedulerState, settings: LiveSettings, rng: np.random.Generator, clock: SteadyClock
) -> RunInfo:
    """Begins a run, and puts the stored state into the scheduler's; a node begins with what all nodes share."""
    run = await store.runs.start(pollerd.__version__, clock())
    if settings.topic is None:
        await store.frontier.recall()
    if store.cluster is None:
        await restore(scheduler, store, run, settings.daemon, rng=rng, now=clock())
    else:
        await restore_node(scheduler, store, store.cluster, settings.daemon)
    return run


async def _runtime(
    store: Store,
    settings: LiveSettings,
    run: RunInfo,
    *,
    clock: SteadyClock,
    rng: np.random.Generator,
    instruments: Instruments,
    health: StorageHealth | None,
) -> Runtime:
    return Runtime(
        settings=settings.daemon if settings.topic is None else settings.daemon.for_crawling(),
        clock=clock,
        rng=rng,
        instruments=instruments,
        workers=WorkerPool(await asyncio.to_thread(workers_that_fit)),
        templates=WorkerPool(patience_seconds=TEMPLATE_SECONDS, memory_bytes=TEMPLATE_MEMORY_BYTES, name="templates"),
        faults=Faults(instruments, clock),
        health=health or StorageHealth(instruments),
        roles=Roles(alone=store.cluster is None),
        blindness=ObservationGaps() if store.cluster is not None else await blind_while_stopped(store, run, clock()),
    )


async def _common(
    store: Store,
    scheduler: SchedulerState,
    client: PageClient,
    node: NodeParts | None,
    runtime: Runtime,
    run: RunInfo,
    settings: LiveSettings,
) -> CommonParts:
    """Returns what the parts of every room use; a daemon with a topic loads its collection."""
    chooser = Chooser(
        scheduler.sites, scheduler.hosts, scheduler.settings, still_unchanged=partial(still_unchanged, scheduler)
    )
    hook: PageHook | None = None
    if settings.topic is not None:
        with CRAWLER.needed():
            from pollerd.crawler.room import crawl_hook  # 1.5 MB that a daemon without a topic does not need

        hook = await crawl_hook(
            store.collection, store.frontier, scheduler, chooser, settings.topic, settings.seeds, runtime
        )
    budget = Budget(
        settings.daemon.budget,
        last_start=last_start(run, runtime.clock()),
        may_write=None if store.cluster is None else store.cluster.may_write,
        granted=store.cluster is None,
    )
    most = runtime.settings.max_inflight
    return CommonParts(
        store=store,
        scheduler=scheduler,
        chooser=chooser,
        client=client,
        budget=budget,
        hook=hook,
        site_cache=SiteCache(store.sites, runtime.settings.memory_sites),
        in_flight=InFlight(scheduler=scheduler, most=most, instruments=runtime.instruments),
        node=node,
        runtime=runtime,
    )


@contextlib.asynccontextmanager
async def _renderer(
    settings: LiveSettings, hosts: HostTable, clock: Callable[[], float]
) -> AsyncIterator[Renderer | None]:
    """Opens the renderer, if a browser is named."""
    if settings.rendering is None or settings.rendering.browser is None:
        yield None
        return
    from pollerd.rendering.renderer import Renderer  # what a daemon without a browser does not need

    async with Renderer(
        settings.rendering,
        settings.fetching,
        clock=clock,
        on_sent=lambda host: hosts.sent(host, clock()),
        may_connect=paused_hosts(hosts, clock),
    ) as renderer:
        yield renderer


def _parts(common: CommonParts, settings: LiveSettings) -> Parts:
    """Builds the parts of the live loop, from the results back to the choice, then monitoring and control."""
    store = common.store
    signals = signal_parts(store, common.scheduler, settings.signals, settings.fetching, common.runtime)
    results = result_parts(common, signals)
    polling = polling_parts(common, results)
    explaining = explaining_parts(common, results)
    sites = site_control(common, results, explaining)
    sources = source_reader(common, polling, results, sites)
    notifier = notifier_of(common, results, explaining, settings.notifying)
    control = control_of(
        common,
        settings=settings.signals,
        signals=signals,
        results=results,
        polling=polling,
        explaining=explaining,
        sites=sites,
        sources=sources,
        notifier=notifier,
        notifying=settings.notifying,
    )
    indexes = IndexChildren(
        readings=signals.indexes,
        store=store.signals,
        control=signals.control,
        add_sites=partial(sites.add, respect_deleted=True),
        discard_sites=sites.discard,
    )
    return Parts(
        runtime=common.runtime,
        store=store,
        scheduler=common.scheduler,
        chooser=common.chooser,
        fetcher=common.client.fetcher,
        renderer=common.client.renderer,
        poller=polling.poller,
        in_flight=common.in_flight,
        outage_filter=results.outage_filter,
        journal=results.journal,
        hook=common.hook,
        shadows=explaining.shadows,
        sources=sources,
        signals=signals.sources,
        hubs=signals.subscriber,
        index_children=indexes,
        notifier=notifier,
        gauges=explaining.gauges,
        cluster=_cluster(common, polling, results, explaining, signals, control, sources, notifier),
        control=control,
    )


def _cluster(  # noqa: PLR0913 (what follows the other nodes)
    common: CommonParts,
    polling: PollingParts,
    results: ResultParts,
    explaining: ExplainingParts,
    signals: SignalParts,
    control: Control,
    sources: SourceReader,
    notifier: Notifier,
) -> ClusterPart | None:
    """Returns what takes part in a cluster; None: the daemon is alone."""
    if common.node is None or polling.shared_hosts is None:
        return None
    from pollerd.app.nodes import NodeFollowers, cluster_part  # what a daemon that is alone does not need

    followers = NodeFollowers(
        notifier=notifier,
        sources=sources,
        jobs=control.jobs,
        allocation=control.allocation,
        signal_sources=signals.sources,
        reads=control.reads,
        hubs=signals.subscriber,
    )
    return cluster_part(
        common, common.node, polling.shared_hosts, results=results, explaining=explaining, followers=followers
    )
