"""The composition root: builds the live daemon part by part, in the order of their dependencies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import pollerd
from pollerd import allocation
from pollerd.allocation.core.budget_split import divide_reported
from pollerd.app.build_signals import index_now_reports, signal_parts
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.daemon import Control, Daemon, DaemonSettings, SteadyClock, StorageHealth
from pollerd.daemon.allocation.explain import ScheduleExplainer
from pollerd.daemon.allocation.forecast import Forecast
from pollerd.daemon.allocation.planning.planner import Planner
from pollerd.daemon.allocation.shadows import Shadows
from pollerd.daemon.allocation.site_views import SiteViews
from pollerd.daemon.allocation.whole_budget import WholeBudget
from pollerd.daemon.cluster.cluster_view import ClusterViewer
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.control.hosts import HostControl
from pollerd.daemon.control.jobs import JobControl
from pollerd.daemon.control.many_sites import ManySites
from pollerd.daemon.control.notifications import NotificationControl
from pollerd.daemon.control.preview import PreviewControl
from pollerd.daemon.control.site_removal import SiteRemoval
from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.control.sources import SourceControl
from pollerd.daemon.control.tags import TagControl
from pollerd.daemon.crawler.hook import NoCrawl, PageHook
from pollerd.daemon.crawler.report import CollectionReporter
from pollerd.daemon.daemon import Parts
from pollerd.daemon.gauges import Gauges
from pollerd.daemon.notifying.daemon_events import DaemonEvents
from pollerd.daemon.notifying.failing_watch import FailingWatch
from pollerd.daemon.notifying.notifier import Delivers, Notifier
from pollerd.daemon.polling.budget import Budget
from pollerd.daemon.polling.dispatcher import Dispatcher
from pollerd.daemon.polling.in_flight import InFlight
from pollerd.daemon.polling.outage_filter import OutageFilter
from pollerd.daemon.polling.pages.client import PageClient, paused_hosts
from pollerd.daemon.polling.pages.requests import PageRequests
from pollerd.daemon.polling.poll_tasks import PollTasks
from pollerd.daemon.polling.poller import Poller
from pollerd.daemon.polling.redirect_policies import MakesRedirectPolicies, RedirectPolicies
from pollerd.daemon.polling.robots_txt import OwnHosts, RobotsKeeper
from pollerd.daemon.process.blindness import Blindness
from pollerd.daemon.process.roles import Roles
from pollerd.daemon.process.workers import SELECTION_MEMORY_BYTES, SELECTION_SECONDS, WorkerPool
from pollerd.daemon.reads.read_control import ReadControl
from pollerd.daemon.results.announcing.announcer import Announcer
from pollerd.daemon.results.calibration import CalibrationSums
from pollerd.daemon.results.changes import NoiseStep
from pollerd.daemon.results.journal import Journal
from pollerd.daemon.results.learning import LearningStep
from pollerd.daemon.results.poll_feed import PollFeed
from pollerd.daemon.results.processor import ResultProcessor, Steps
from pollerd.daemon.results.proofs.candidates import Candidates
from pollerd.daemon.results.proofs.prover import Prover
from pollerd.daemon.results.proofs.still_noise import StillNoise
from pollerd.daemon.results.proofs.updates import ProofUpdates
from pollerd.daemon.results.status import StatusStep
from pollerd.daemon.results.tables import TableUpdates
from pollerd.daemon.signals.index_children import IndexChildren
from pollerd.daemon.signals.signal_settings import SignalSettings
from pollerd.daemon.signals.signal_yield import SignalYield
from pollerd.daemon.sources.reader import ReadsSources, SourceReader
from pollerd.daemon.startup import blind_while_stopped, check_weights, last_start, restore, restore_node
from pollerd.daemon.state.faults import Faults
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.site_cache import SiteCache
from pollerd.fetching import Fetcher, FetchSettings
from pollerd.notifications.settings import NotificationSettings
from pollerd.rendering.settings import RenderingSettings
from pollerd.scheduling import Chooser, HostTable, SchedulingSettings
from pollerd.storage import GrantStore, Store
from pollerd.telemetry import Instruments

if TYPE_CHECKING:
    from pollerd.daemon.cluster.loans.borrower import HostBorrower
    from pollerd.daemon.cluster.loans.redirects import NodeRedirectPolicies
    from pollerd.daemon.cluster.node_answers import NodeAnswers
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
    allocator = allocation.create(
        settings.daemon.allocator,
        budget=settings.daemon.budget,
        objective=settings.daemon.objective,
        rng=rng,
        deadline=settings.daemon.deadline,
    )
    if settings.topic is not None:
        check_weights(settings.daemon.allocator, allocator)
    scheduler = SchedulerState(
        settings=settings.scheduling,
        allocator_name=settings.daemon.allocator,
        allocator=allocator,
        objective=settings.daemon.objective,
        deadline=settings.daemon.deadline,
        alone=store.cluster is None,
    )
    clock = make_clock(scheduler.clock_set)
    borrower: HostBorrower | None = None
    if store.cluster is not None:
        from pollerd.app.build_cluster import host_borrower  # what a daemon that is alone does not need

        seconds = settings.fetching.total_timeout_seconds
        borrower = host_borrower(store.cluster, scheduler, clock=clock, seconds=seconds, instruments=instruments)
    fetcher = Fetcher(
        settings.fetching,
        clock=clock,
        on_sent=lambda host: scheduler.hosts.sent(host, clock()),
        before_repeat=lambda host: asyncio.sleep(scheduler.hosts.spacing_left_at(host, clock())),
        may_write=None if borrower is None else borrower.may_write,
    )
    async with fetcher, _renderer(settings, scheduler.hosts, clock) as renderer:
        run = await store.start_run(pollerd.__version__, clock())
        if settings.topic is None:
            await store.crawl.recall()
        if store.cluster is None:
            await restore(scheduler, store, run, settings.daemon, rng=rng, now=clock())
        else:
            await restore_node(scheduler, store, store.cluster, settings.daemon)
        runtime = Runtime(
            settings=settings.daemon if settings.topic is None else settings.daemon.for_crawling(),
            clock=clock,
            rng=rng,
            instruments=instruments,
            workers=WorkerPool(),
            selection_workers=WorkerPool(
                patience_seconds=SELECTION_SECONDS, memory_bytes=SELECTION_MEMORY_BYTES, name="selection"
            ),
            faults=Faults(instruments, clock),
            health=health or StorageHealth(instruments),
            roles=Roles(alone=store.cluster is None),
            blindness=Blindness() if store.cluster is not None else await blind_while_stopped(store, run, clock()),
        )
        chooser = Chooser(scheduler.sites, scheduler.hosts, scheduler.settings)
        hook: PageHook = NoCrawl()
        if settings.topic is not None:
            from pollerd.app.build_crawl import crawl_hook  # 1.5 MB that a daemon without a topic does not need

            hook = await crawl_hook(store.crawl, scheduler, chooser, settings.topic, settings.seeds, runtime)
        budget = Budget(
            settings.daemon.budget,
            last_start=last_start(run, clock()),
            may_write=None if store.cluster is None else store.cluster.may_write,
            granted=store.cluster is None,
        )
        client = PageClient(fetcher=fetcher, renderer=renderer, clock=clock)
        parts = _parts(store, scheduler, client, chooser, budget, hook, runtime, settings, borrower)
        await parts.notifier.load()
        await parts.signals.load()
        yield Daemon(parts)


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


def _parts(  # noqa: PLR0913 (what the parts are made of)
    store: Store,
    scheduler: SchedulerState,
    client: PageClient,
    chooser: Chooser,
    budget: Budget,
    hook: PageHook,
    runtime: Runtime,
    live: LiveSettings,
    borrower: HostBorrower | None,
) -> Parts:
    """Builds the parts of the live loop, from the results back to the choice, then monitoring and control.

    borrower: of hosts of other nodes; None: the daemon is alone.
    """
    settings, instruments = runtime.settings, runtime.instruments
    site_cache = SiteCache(store.sites, settings.memory_sites)
    in_flight = InFlight(scheduler=scheduler, most=settings.max_inflight, instruments=instruments)
    candidates, still, prover = Candidates(), StillNoise(), Prover(scheduler=scheduler, runtime=runtime)
    filled = asyncio.Event()
    announcer = Announcer(sites=store.sites, history=store.history, filled=filled, runtime=runtime)
    removal = SiteRemoval(
        scheduler=scheduler,
        site_cache=site_cache,
        candidates=candidates,
        announcer=announcer,
        in_flight=in_flight,
        hook=hook,
    )

    calibration = CalibrationSums(instruments)
    status = StatusStep(scheduler, runtime)
    signals = signal_parts(store, scheduler, live.signals, live.fetching, runtime)
    signal_yield = SignalYield(sources=signals.sources, scheduler=scheduler, instruments=instruments)
    steps = Steps(
        noise=NoiseStep(
            scheduler=scheduler,
            store=store.history,
            prover=prover,
            candidates=candidates,
            still=still,
            runtime=runtime,
        ),
        status=status,
        crawl=hook,
        learning=LearningStep(
            scheduler=scheduler, status=status, calibration=calibration, signal_yield=signal_yield, runtime=runtime
        ),
        announcing=announcer,
        signals=signals.reader,
        tables=TableUpdates(scheduler),
        proofs=ProofUpdates(
            scheduler=scheduler, candidates=candidates, still=still, prover=prover, instruments=instruments
        ),
    )
    poll_feed = PollFeed()
    processor = ResultProcessor(
        scheduler=scheduler,
        steps=steps,
        site_cache=site_cache,
        remove_site=removal.remove,
        poll_feed=poll_feed,
        runtime=runtime,
    )
    journal = Journal(processor=processor, store=store, runtime=runtime)
    outage_filter = OutageFilter(scheduler=scheduler, journal=journal, runtime=runtime)

    robots = RobotsKeeper(
        scheduler=scheduler,
        fetcher=client.fetcher,
        journal=journal,
        gate=budget.robots_gate,
        runtime=runtime,
        borrowing=OwnHosts if borrower is None else borrower.for_request,
    )
    local = RedirectPolicies(scheduler=scheduler, robots=robots, runtime=runtime)
    redirects: MakesRedirectPolicies = local
    node_policies: NodeRedirectPolicies | None = None
    if borrower is not None:
        from pollerd.app.build_cluster import node_redirects  # what a daemon that is alone does not need

        redirects = node_policies = node_redirects(
            store, borrower, local=local, robots=robots, scheduler=scheduler, journal=journal, runtime=runtime
        )
    requests = PageRequests(scheduler=scheduler, client=client, redirects=redirects, budget=budget, runtime=runtime)
    poller = Poller(
        scheduler=scheduler, client=client, redirects=redirects, pacer=budget.pacer, hook=hook, runtime=runtime
    )
    tasks = PollTasks(
        scheduler=scheduler,
        poller=poller,
        robots=robots,
        outage_filter=outage_filter,
        in_flight=in_flight,
        hook=hook,
        runtime=runtime,
    )
    dispatcher = Dispatcher(
        scheduler=scheduler,
        chooser=chooser,
        budget=budget,
        tasks=tasks,
        outage_filter=outage_filter,
        site_cache=site_cache,
        runtime=runtime,
    )

    forecast = Forecast(scheduler, runtime.clock)
    shadows = Shadows(store=store.history, scheduler=scheduler, journal=journal, forecast=forecast, runtime=runtime)
    explainer = ScheduleExplainer(
        scheduler=scheduler,
        meter=budget.meter,
        forecast=forecast,
        calibration=calibration,
        shadows=shadows.views,
        signal_yield=signal_yield,
        clock=runtime.clock,
    )
    collection = CollectionReporter(store=store.crawl, scheduler=scheduler, clock=runtime.clock)
    gauges = Gauges(
        scheduler=scheduler,
        budget=budget,
        forecast=forecast,
        explainer=explainer,
        collection=collection,
        instruments=instruments,
    )
    views = SiteViews(
        store=store.sites,
        scheduler=scheduler,
        site_cache=site_cache,
        explainer=explainer,
        holders=None if borrower is None else borrower.nodes,
        clock=runtime.clock,
    )
    sites = SiteControl(
        store=store.sites,
        scheduler=scheduler,
        site_cache=site_cache,
        removal=removal,
        waiting=(journal, outage_filter),
        views=views,
        clock=runtime.clock,
    )

    def readings() -> ReadsSources:
        from pollerd.app.build_sources import source_readings  # what a daemon without sources does not need

        return source_readings(
            store=store.sources,
            scheduler=scheduler,
            sites=sites,
            requests=requests,
            outage_filter=outage_filter,
            runtime=runtime,
        )

    daemon_events = DaemonEvents(
        store=store.notifications,
        announcer=announcer,
        late_sites=explainer.late_sites,
        filled=filled,
        runtime=runtime,
    )

    failing_watch = FailingWatch(
        store=store,
        scheduler=scheduler,
        announcer=announcer,
        journal=journal,
        site_cache=site_cache,
        filled=filled,
        runtime=runtime,
    )

    def delivery() -> Delivers:
        from pollerd.app.build_delivery import delivery_loop  # what a daemon without channels does not need

        return delivery_loop(store.notifications, daemon_events, announcer, filled, live.notifying, runtime)

    notifier = Notifier(
        store=store.notifications,
        announcer=announcer,
        journal=journal,
        site_cache=site_cache,
        make_delivery=delivery,
        watchers=(daemon_events, failing_watch),
        runtime=runtime,
    )
    sources = SourceReader(store=store.sources, make_reading=readings, runtime=runtime)
    grants = None if store.cluster is None else GrantStore(database=store.database, divide=divide_reported)
    many = ManySites(
        store=store.sites, scheduler=scheduler, site_cache=site_cache, removal=removal, clock=runtime.clock
    )
    health = DaemonHealth(
        store=store,
        scheduler=scheduler,
        dispatcher=dispatcher,
        in_flight=in_flight,
        outage_filter=outage_filter,
        budget=budget,
        runtime=runtime,
    )
    node_answers: NodeAnswers | None = None
    watched_polls = poll_feed
    if store.cluster is not None and node_policies is not None:
        from pollerd.app.build_cluster import node_answering

        node_answers, watched_polls = node_answering(
            store.cluster,
            node_policies,
            views=views,
            explainer=explainer,
            poll_feed=poll_feed,
            health=health,
            runtime=runtime,
        )
    allocated = AllocationControl(
        store=store,
        scheduler=scheduler,
        budget=budget,
        journal=journal,
        shadows=shadows,
        whole=WholeBudget(
            explainer=explainer,
            shared=store.shared,
            nodes=None if node_policies is None else node_policies.borrower.nodes,
        ),
        runtime=runtime,
    )
    control = Control(
        sites=sites,
        jobs=JobControl(jobs=store.jobs, sites=store.sites, many=many, clock=runtime.clock, alone=scheduler.alone),
        sources=SourceControl(store=store.sources, sites=sites, reader=sources, clock=runtime.clock),
        signals=signals.control,
        hubs=signals.callbacks,
        reads=ReadControl(store=store, scheduler=scheduler, runtime=runtime),
        index_now=index_now_reports(store.signals, signals.control, requests, live.signals, runtime),
        preview=PreviewControl(store=store, requests=requests, runtime=runtime),
        notifications=NotificationControl(store=store.notifications, notifier=notifier, clock=runtime.clock),
        tags=TagControl(store=store.sites, scheduler=scheduler, site_cache=site_cache, clock=runtime.clock),
        hosts=HostControl(store=store.sites, scheduler=scheduler, journal=journal, runtime=runtime),
        allocation=allocated,
        cluster=ClusterViewer(store.cluster, grants),
        planner=Planner(scheduler=scheduler, sites=store.sites, history=store.history),
        explainer=explainer,
        collection=collection,
        poll_feed=watched_polls,
        node_answers=node_answers,
        health=health,
        gauges=gauges,
    )
    cluster = None
    if store.cluster is not None and grants is not None and node_policies is not None:
        from pollerd.app.build_cluster import cluster_parts  # what a daemon that is alone does not need

        cluster = cluster_parts(
            store,
            store.cluster,
            scheduler=scheduler,
            site_cache=site_cache,
            removal=removal,
            journal=journal,
            notifier=notifier,
            sources=sources,
            jobs=control.jobs,
            allocation=allocated,
            signal_sources=signals.sources,
            reads=control.reads,
            hubs=signals.subscriber,
            grants=grants,
            budget=budget,
            forecast=forecast,
            redirects=node_policies,
            outbox_filled=filled,
            request_seconds=client.fetcher.settings.total_timeout_seconds,
            runtime=runtime,
        )
    return Parts(
        runtime=runtime,
        store=store,
        scheduler=scheduler,
        chooser=chooser,
        fetcher=client.fetcher,
        renderer=client.renderer,
        poller=poller,
        in_flight=in_flight,
        dispatcher=dispatcher,
        outage_filter=outage_filter,
        journal=journal,
        hook=hook,
        shadows=shadows,
        sources=sources,
        signals=signals.sources,
        hubs=signals.subscriber,
        index_children=IndexChildren(
            readings=signals.indexes, store=store.signals, control=signals.control, sites=sites
        ),
        notifier=notifier,
        gauges=gauges,
        cluster=cluster,
        control=control,
    )
