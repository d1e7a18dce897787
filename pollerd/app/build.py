"""The composition root: builds the live daemon part by part, in the order of their dependencies.

`wiring` has a module for the parts of each room; here is in which order they are built.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import pollerd
from pollerd import allocation
from pollerd.app.wiring.common import CommonParts, NodeParts
from pollerd.app.wiring.control import control_of, site_control
from pollerd.app.wiring.explaining import ExplainingParts, explaining_parts
from pollerd.app.wiring.notifying import notifier_of
from pollerd.app.wiring.polling import PollingParts, polling_parts
from pollerd.app.wiring.results import ResultParts, result_parts
from pollerd.app.wiring.signals import SignalParts, signal_parts
from pollerd.app.wiring.sources import source_reader
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.daemon import Control, Daemon, DaemonSettings, SteadyClock, StorageHealth
from pollerd.daemon.cluster.cluster_part import ClusterPart
from pollerd.daemon.crawler.hook import NoCrawl, PageHook
from pollerd.daemon.daemon import Parts
from pollerd.daemon.notifying.notifier import Notifier
from pollerd.daemon.polling.budget import Budget
from pollerd.daemon.polling.in_flight import InFlight
from pollerd.daemon.polling.pages.client import PageClient, paused_hosts
from pollerd.daemon.process.blindness import Blindness
from pollerd.daemon.process.roles import Roles
from pollerd.daemon.process.workers import TEMPLATE_MEMORY_BYTES, TEMPLATE_SECONDS, WorkerPool, workers_that_fit
from pollerd.daemon.signals.index_children import IndexChildren
from pollerd.daemon.signals.signal_settings import SignalSettings
from pollerd.daemon.sources.reader import SourceReader
from pollerd.daemon.startup import blind_while_stopped, check_weights, last_start, restore, restore_node
from pollerd.daemon.state.faults import Faults
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.fetching import Fetcher, FetchSettings
from pollerd.notifications.settings import NotificationSettings
from pollerd.rendering.settings import RenderingSettings
from pollerd.scheduling import Chooser, HostTable, SchedulingSettings
from pollerd.storage import RunInfo, Store
from pollerd.telemetry import Instruments

if TYPE_CHECKING:
    from pollerd.rendering import Renderer


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
    node = _node(store, scheduler, settings.fetching, clock, instruments)
    fetcher = Fetcher(
        settings.fetching,
        clock=clock,
        on_sent=lambda host: scheduler.hosts.sent(host, clock()),
        before_repeat=lambda host: asyncio.sleep(scheduler.hosts.spacing_left_at(host, clock())),
        may_write=None if node is None else node.borrower.may_write,
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
    allocator = allocation.create(
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


def _node(
    store: Store, scheduler: SchedulerState, fetching: FetchSettings, clock: SteadyClock, instruments: Instruments
) -> NodeParts | None:
    """Returns what a daemon has that is one of several nodes; None: it is alone."""
    if store.cluster is None:
        return None
    from pollerd.app.wiring.cluster import node_parts  # what a daemon that is alone does not need

    seconds = fetching.total_timeout_seconds
    return node_parts(store, store.cluster, scheduler, clock=clock, seconds=seconds, instruments=instruments)


async def _restored(
    store: Store, scheduler: SchedulerState, settings: LiveSettings, rng: np.random.Generator, clock: SteadyClock
) -> RunInfo:
    """Begins a run, and puts the stored state into the scheduler's; a node begins with what all nodes share."""
    run = await store.start_run(pollerd.__version__, clock())
    if settings.topic is None:
        await store.crawl.recall()
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
        blindness=Blindness() if store.cluster is not None else await blind_while_stopped(store, run, clock()),
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
    chooser = Chooser(scheduler.sites, scheduler.hosts, scheduler.settings)
    hook: PageHook = NoCrawl()
    if settings.topic is not None:
        from pollerd.app.wiring.crawl import crawl_hook  # 1.5 MB that a daemon without a topic does not need

        hook = await crawl_hook(store.crawl, scheduler, chooser, settings.topic, settings.seeds, runtime)
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
    from pollerd.rendering import Renderer  # what a daemon without a browser does not need

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
    )
    indexes = IndexChildren(readings=signals.indexes, store=store.signals, control=signals.control, sites=sites)
    return Parts(
        runtime=common.runtime,
        store=store,
        scheduler=common.scheduler,
        chooser=common.chooser,
        fetcher=common.client.fetcher,
        renderer=common.client.renderer,
        poller=polling.poller,
        in_flight=common.in_flight,
        dispatcher=polling.dispatcher,
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
    if common.node is None or polling.node_redirects is None:
        return None
    from pollerd.app.wiring.cluster import NodeFollowers, cluster_part  # what a daemon that is alone does not need

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
        common, common.node, polling.node_redirects, results=results, explaining=explaining, followers=followers
    )
