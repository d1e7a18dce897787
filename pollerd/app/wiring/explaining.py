"""Builds what forecasts, compares and explains, for metrics, views and control."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.app.wiring.common import CommonParts
from pollerd.app.wiring.results import ResultParts
from pollerd.daemon.allocation.explain import ScheduleExplainer
from pollerd.daemon.allocation.forecast import Forecast
from pollerd.daemon.allocation.shadows import Shadows
from pollerd.daemon.allocation.site_views import SiteViews
from pollerd.daemon.crawler.report import CollectionReporter
from pollerd.daemon.gauges import Gauges


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
    collection = CollectionReporter(store=store.crawl, scheduler=scheduler, clock=runtime.clock)
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
            holders=None if common.node is None else common.node.borrower.nodes,
            clock=runtime.clock,
        ),
    )
