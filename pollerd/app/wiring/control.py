"""Builds the interface of the running daemon: its views and actions, by subject."""

from __future__ import annotations

from pollerd.app.wiring.common import CommonParts
from pollerd.app.wiring.explaining import ExplainingParts
from pollerd.app.wiring.polling import PollingParts
from pollerd.app.wiring.results import ResultParts
from pollerd.app.wiring.signals import SignalParts, index_now_reports
from pollerd.daemon import Control
from pollerd.daemon.allocation.planning.planner import Planner
from pollerd.daemon.allocation.whole_budget import WholeBudget
from pollerd.daemon.cluster.cluster_view import ClusterViewer
from pollerd.daemon.control.allocation import AllocationControl
from pollerd.daemon.control.control import AnswersNodes
from pollerd.daemon.control.health import DaemonHealth
from pollerd.daemon.control.hosts import HostControl
from pollerd.daemon.control.jobs import JobControl
from pollerd.daemon.control.many_sites import ManySites
from pollerd.daemon.control.notifications import NotificationControl
from pollerd.daemon.control.preview import PreviewControl
from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.control.sources import SourceControl
from pollerd.daemon.control.tags import TagControl
from pollerd.daemon.notifying.notifier import Notifier
from pollerd.daemon.reads.read_control import ReadControl
from pollerd.daemon.results.poll_feed import PollFeed
from pollerd.daemon.signals.signal_settings import SignalSettings
from pollerd.daemon.sources.reader import SourceReader


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
) -> Control:
    """Returns the interface that the API, the list reader and the status line use."""
    store, scheduler, runtime = common.store, common.scheduler, common.runtime
    requests, clock = polling.requests, runtime.clock
    health = _health(common, results, polling)
    node_answers, poll_feed = _node_answering(results, polling, explaining, health, common)
    return Control(
        sites=sites,
        jobs=_job_control(common, results),
        sources=SourceControl(store=store.sources, sites=sites, reader=sources, clock=clock),
        signals=signals.control,
        hubs=signals.callbacks,
        reads=ReadControl(store=store, scheduler=scheduler, runtime=runtime),
        index_now=index_now_reports(store.signals, signals.control, requests, settings, runtime),
        preview=PreviewControl(store=store, requests=requests, runtime=runtime),
        notifications=NotificationControl(store=store.notifications, notifier=notifier, runtime=runtime),
        tags=TagControl(store=store.sites, scheduler=scheduler, site_cache=common.site_cache, clock=clock),
        hosts=HostControl(store=store.sites, scheduler=scheduler, journal=results.journal, runtime=runtime),
        allocation=_allocation_control(common, results, explaining),
        cluster=ClusterViewer(store.cluster, None if common.node is None else common.node.grants),
        planner=Planner(scheduler=scheduler, sites=store.sites, history=store.history),
        explainer=explaining.explainer,
        collection=explaining.collection,
        poll_feed=poll_feed,
        node_answers=node_answers,
        health=health,
        gauges=explaining.gauges,
    )


def _health(common: CommonParts, results: ResultParts, polling: PollingParts) -> DaemonHealth:
    return DaemonHealth(
        store=common.store,
        scheduler=common.scheduler,
        dispatcher=polling.dispatcher,
        in_flight=common.in_flight,
        outage_filter=results.outage_filter,
        budget=common.budget,
        runtime=common.runtime,
    )


def _node_answering(
    results: ResultParts,
    polling: PollingParts,
    explaining: ExplainingParts,
    health: DaemonHealth,
    common: CommonParts,
) -> tuple[AnswersNodes | None, PollFeed]:
    """Returns what answers the other nodes, and the polls that are shown: those of all nodes."""
    if polling.node_redirects is None:
        return None, results.poll_feed
    from pollerd.app.wiring.cluster import node_answering  # what a daemon that is alone does not need

    return node_answering(
        polling.node_redirects,
        explaining=explaining,
        poll_feed=results.poll_feed,
        health=health,
        clock=common.runtime.clock,
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
    whole = WholeBudget(
        explainer=explaining.explainer,
        shared=common.store.shared,
        nodes=None if common.node is None else common.node.borrower.nodes,
    )
    return AllocationControl(
        store=common.store,
        scheduler=common.scheduler,
        budget=common.budget,
        journal=results.journal,
        shadows=explaining.shadows,
        whole=whole,
        runtime=common.runtime,
    )
