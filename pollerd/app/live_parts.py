"""The parts of every daemon, built by room: signals, results, polling, explanations, notifications, sources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pollerd.daemon.announcer import Announcer
from pollerd.daemon.budget import Budget
from pollerd.daemon.calibration import CalibrationSums
from pollerd.daemon.collection import CollectionReporter
from pollerd.daemon.commit import Journal, Steps
from pollerd.daemon.control.sites import SiteControl, SiteRemoval
from pollerd.daemon.crawl_hook import PageHook
from pollerd.daemon.explain import ScheduleExplainer, SiteViews
from pollerd.daemon.forecast import Forecast
from pollerd.daemon.gauges import Gauges
from pollerd.daemon.hubs import HubCallbacks, HubOffers, HubSubscriber
from pollerd.daemon.index_now import IndexNowKeys, IndexNowReports
from pollerd.daemon.noise import NoiseStep
from pollerd.daemon.notifier import DaemonEvents, FailingWatch, Notifier
from pollerd.daemon.outage_filter import OutageFilter
from pollerd.daemon.pages import PageClient, PageRequests
from pollerd.daemon.poll import InFlight, Poller, PollParts
from pollerd.daemon.proofs import Candidates
from pollerd.daemon.prover import ProofUpdates, Prover, StillNoise
from pollerd.daemon.redirects import RedirectPolicies, RedirectPolicyMaker
from pollerd.daemon.robots import HostVisit, OwnHosts, RobotsKeeper
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.settings import SignalSettings
from pollerd.daemon.shadows import Shadows
from pollerd.daemon.signal_control import SignalControl
from pollerd.daemon.signal_reader import DocumentSignals, IndexReadings, SignalReader
from pollerd.daemon.signals import SignalSources, SignalYield
from pollerd.daemon.sources import ReadSource, SourceReader
from pollerd.daemon.stages import SiteCache
from pollerd.daemon.views import PollFeed
from pollerd.fetching.poster import Poster
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import Outcome
from pollerd.notifications.settings import NotificationSettings
from pollerd.scheduling.choice import Chooser
from pollerd.storage.grants import GrantStore
from pollerd.storage.nodes import ClusterStore
from pollerd.storage.signals import SignalSource, SignalStore
from pollerd.storage.store import Store
from pollerd.storage.values import SiteContext

if TYPE_CHECKING:
    from pollerd.daemon.nodes.questions import HolderClient
    from pollerd.daemon.nodes.shared_hosts import SharedHosts
    from pollerd.notifications.delivery import DeliveryLoop


class HostPermit:
    """Says whether a request to a host may be written now: the fetcher is made before what knows it."""

    def __init__(self) -> None:
        self.ask: Callable[[str], bool] = _allow
        """What is asked."""

    def __call__(self, host: str) -> bool:
        """Returns the answer."""
        return self.ask(host)


def _allow(_: str) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """What a daemon has that is one of several nodes."""

    cluster: ClusterStore
    holders: HolderClient
    """Asks the nodes that poll sites."""
    grants: GrantStore
    may_write: HostPermit
    """Whether a request to a host may be written now."""


@dataclass(frozen=True, kw_only=True)
class CommonParts:
    """State, storage and what asks the sites: built first, used by the parts of every room."""

    store: Store
    scheduler: SchedulerState
    chooser: Chooser
    client: PageClient
    budget: Budget
    hook: PageHook | None
    """None: no topic is set."""
    site_cache: SiteCache
    in_flight: InFlight
    node: NodeParts | None
    """None: the daemon is alone."""
    runtime: Runtime


# Signals: sources, their documents, hubs, reports.

_CONNECTIONS = 4
_KEY_BYTES, _KEY_PATIENCE_SECONDS = 1_024, 60.0


@dataclass(frozen=True, kw_only=True)
class SignalParts:
    """The parts of signals."""

    sources: SignalSources
    reader: SignalReader
    control: SignalControl
    subscriber: HubSubscriber
    callbacks: HubCallbacks
    indexes: IndexReadings


def signal_parts(
    store: Store, scheduler: SchedulerState, settings: SignalSettings, fetching: FetchSettings, runtime: Runtime
) -> SignalParts:
    """Returns the parts. fetching: settings of polls; hubs are asked under the same guard and proxy."""
    sources = SignalSources(store=store.signals, scheduler=scheduler)
    documents = DocumentSignals(store=store.signals, sources=sources, runtime=runtime)
    subscriber = HubSubscriber(
        store=store.hubs,
        sources=sources,
        settings=settings,
        make_poster=lambda: Poster(replace(fetching, max_connections=_CONNECTIONS)),
        runtime=runtime,
    )
    indexes = IndexReadings()

    def after_delete(source: SignalSource) -> None:
        subscriber.look_again()
        indexes.put(source, (), complete=True)  # its sitemaps go, too

    note_hub = None
    if settings.callback_url is not None:
        note_hub = HubOffers(store=store.hubs, clock=runtime.clock, on_change=subscriber.look_again).note
    return SignalParts(
        sources=sources,
        reader=SignalReader(
            sources=sources, documents=documents, indexes=indexes, note_hub=note_hub, faults=runtime.faults
        ),
        control=SignalControl(
            store=store.signals, sources=sources, scheduler=scheduler, on_delete=after_delete, runtime=runtime
        ),
        subscriber=subscriber,
        callbacks=HubCallbacks(
            hubs=store.hubs,
            signals=store.signals,
            documents=documents,
            subscriber=subscriber,
            settings=settings,
            runtime=runtime,
        ),
        indexes=indexes,
    )


def index_now_reports(
    store: SignalStore, control: SignalControl, requests: PageRequests, settings: SignalSettings, runtime: Runtime
) -> IndexNowReports:
    """Returns what takes reports in IndexNow's form; their keys are fetched as `requests` does, within the budget."""

    async def fetch(url: str) -> Outcome:
        request = Request(url, most_bytes=_KEY_BYTES)
        return await requests.get(SiteContext(0, ""), request, cost=1.0, patience_seconds=_KEY_PATIENCE_SECONDS)

    keys = IndexNowKeys(fetch, runtime.clock)
    return IndexNowReports(allowed=settings.indexnow, store=store, keys=keys, reports=control, runtime=runtime)


# Results: the steps from noise to announcements, and the journal that commits them.


@dataclass(frozen=True, kw_only=True)
class ResultParts:
    """The parts that process results, and those of them that others read."""

    announcer: Announcer
    outbox_filled: asyncio.Event
    """Set when there is something new to send."""
    removal: SiteRemoval
    calibration: CalibrationSums
    signal_yield: SignalYield
    poll_feed: PollFeed
    """Of this node's own polls."""
    journal: Journal
    outage_filter: OutageFilter
    still: StillNoise


def result_parts(common: CommonParts, signals: SignalParts) -> ResultParts:
    """Builds what the steps call first, then the journal that has the steps, and the outage filter before it."""
    store, scheduler, runtime = common.store, common.scheduler, common.runtime
    outbox_filled = asyncio.Event()
    announcer = Announcer(sites=store.sites, contents=store.contents, filled=outbox_filled, runtime=runtime)
    candidates, still, prover = Candidates(), StillNoise(), Prover(scheduler=scheduler, runtime=runtime)
    removal = SiteRemoval(
        scheduler=scheduler,
        site_cache=common.site_cache,
        candidates=candidates,
        announcer=announcer,
        in_flight=common.in_flight,
        hook=common.hook,
    )
    steps = Steps(
        noise=NoiseStep(
            scheduler=scheduler,
            store=store.contents,
            prover=prover,
            candidates=candidates,
            still=still,
            runtime=runtime,
        ),
        crawl=common.hook,
        calibration=CalibrationSums(runtime.instruments),
        signal_yield=SignalYield(sources=signals.sources, scheduler=scheduler, instruments=runtime.instruments),
        announcer=announcer,
        signals=signals.reader,
        signal_sources=signals.sources.known,
        proofs=ProofUpdates(
            scheduler=scheduler, candidates=candidates, still=still, prover=prover, instruments=runtime.instruments
        ),
        site_cache=common.site_cache,
        remove_site=removal.remove,
        poll_feed=PollFeed(),
    )
    journal = Journal(scheduler=scheduler, steps=steps, store=store, runtime=runtime)
    return ResultParts(
        announcer=announcer,
        outbox_filled=outbox_filled,
        removal=removal,
        calibration=steps.calibration,
        signal_yield=steps.signal_yield,
        poll_feed=steps.poll_feed,
        still=still,
        journal=journal,
        outage_filter=OutageFilter(scheduler=scheduler, journal=journal, runtime=runtime),
    )


# Polling: robots.txt, redirects, and the poller.


@dataclass(frozen=True, kw_only=True)
class PollingParts:
    """The parts that poll."""

    requests: PageRequests
    poller: Poller
    shared_hosts: SharedHosts | None
    """Of a daemon that is one of several nodes; None: it is alone."""


def polling_parts(common: CommonParts, results: ResultParts) -> PollingParts:
    """Builds the parts from the request back to the choice."""
    scheduler, client, budget, runtime = common.scheduler, common.client, common.budget, common.runtime
    shared = _shared_hosts(common, results)
    visiting: Callable[[], HostVisit] = OwnHosts
    if shared is not None:
        from pollerd.daemon.nodes.redirects import NodeHostVisit

        visiting = partial(NodeHostVisit, shared)
    robots = RobotsKeeper(
        scheduler=scheduler,
        fetcher=client.fetcher,
        journal=results.journal,
        gate=budget.robots_gate,
        runtime=runtime,
        visiting=visiting,
    )
    local = RedirectPolicies(scheduler=scheduler, robots=robots, runtime=runtime)
    redirects: RedirectPolicyMaker = local
    if shared is not None:
        from pollerd.daemon.nodes.redirects import NodeRedirectPolicies

        redirects = NodeRedirectPolicies(local=local, shared=shared, hosts=scheduler.hosts)
    parts = PollParts(
        chooser=common.chooser,
        budget=budget,
        in_flight=common.in_flight,
        site_cache=common.site_cache,
        robots=robots,
        client=client,
        redirects=redirects,
        crawl=common.hook,
        outage_filter=results.outage_filter,
    )
    return PollingParts(
        requests=PageRequests(scheduler=scheduler, client=client, redirects=redirects, budget=budget, runtime=runtime),
        poller=Poller(scheduler=scheduler, parts=parts, runtime=runtime),
        shared_hosts=shared,
    )


def _shared_hosts(common: CommonParts, results: ResultParts) -> SharedHosts | None:
    if common.node is None:
        return None
    from pollerd.app.nodes import shared_hosts  # what a daemon that is alone does not need

    return shared_hosts(common, common.node, results.journal)


# Explanations: forecasts, comparisons and reasons, for metrics, views and control.


@dataclass(frozen=True, kw_only=True)
class ExplainingParts:
    """The parts that read the live loop and change nothing in it."""

    forecast: Forecast
    shadows: Shadows
    explainer: ScheduleExplainer
    collection: CollectionReporter
    gauges: Gauges
    views: SiteViews


def explaining_parts(common: CommonParts, results: ResultParts) -> ExplainingParts:
    """Builds the forecast first, then what tells of it."""
    store, scheduler, runtime = common.store, common.scheduler, common.runtime
    forecast = Forecast(scheduler, runtime.clock)
    shadows = Shadows(store=store.history, scheduler=scheduler, forecast=forecast, runtime=runtime)
    explainer = ScheduleExplainer(
        scheduler=scheduler,
        meter=common.budget.meter,
        forecast=forecast,
        calibration=results.calibration,
        shadows=shadows.views,
        signal_yield=results.signal_yield,
        clock=runtime.clock,
    )
    collection = CollectionReporter(store=store.collection, scheduler=scheduler, clock=runtime.clock)
    return ExplainingParts(
        forecast=forecast,
        shadows=shadows,
        explainer=explainer,
        collection=collection,
        gauges=Gauges(
            scheduler=scheduler,
            budget=common.budget,
            forecast=forecast,
            explainer=explainer,
            collection=collection,
            instruments=runtime.instruments,
        ),
        views=SiteViews(
            store=store.sites,
            scheduler=scheduler,
            site_cache=common.site_cache,
            explainer=explainer,
            holders=None if common.node is None else common.node.holders,
            still=results.still,
            clock=runtime.clock,
        ),
    )


# Notifications: events of the daemon, and the delivery, which is loaded with the first channel.


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

    def delivery() -> DeliveryLoop:
        # what a daemon without channels does not need

        from pollerd.app.delivery import delivery_loop  # what a daemon without channels does not need

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


# Sources of sites: their parts are loaded when the first source is due.


def source_reader(common: CommonParts, polling: PollingParts, results: ResultParts, sites: SiteControl) -> SourceReader:
    """Returns what reads sources. sites: adds and removes what they list."""

    def reading() -> ReadSource:
        # what a daemon without sources does not need
        from pollerd.daemon.source_readings import DocumentFetcher, SourceMembership, SourceReadings

        store, runtime = common.store.sources, common.runtime
        return SourceReadings(
            store=store,
            documents=DocumentFetcher(polling.requests),
            membership=SourceMembership(store=store, sites=sites, scheduler=common.scheduler, clock=runtime.clock),
            outage_filter=results.outage_filter,
            runtime=runtime,
        ).read

    return SourceReader(store=common.store.sources, make_reading=reading, runtime=common.runtime)
