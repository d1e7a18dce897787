"""Gauges, updated from the state of the daemon."""

from __future__ import annotations

import asyncio
import math
import time

from pollerd.allocation.objectives import ExpectedTimeliness
from pollerd.daemon.budget import Budget
from pollerd.daemon.collection import CollectionReporter
from pollerd.daemon.explain import ScheduleExplainer
from pollerd.daemon.forecast import Forecast
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import STATES, SiteState
from pollerd.telemetry import Instruments

FORECAST_SECONDS = 15.0
"""Interval between forecasts."""
_COLLECTION_SECONDS = 5.0
_COLLECTION_SHARE = 0.05
"""Largest share of the time: counting millions of pages takes a second or more."""


class Gauges:
    """Reads the daemon's tables on request, the forecast every 15 s, the collection every 5 s or less often."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        budget: Budget,
        forecast: Forecast,
        explainer: ScheduleExplainer,
        collection: CollectionReporter,
        instruments: Instruments,
    ) -> None:
        self._scheduler, self._budget = scheduler, budget
        self._forecast, self._explainer, self._collection = forecast, explainer, collection
        self._instruments = instruments

    async def follow_forecast(self) -> None:
        """Refreshes the forecast until cancelled."""
        while True:
            await self._refresh_forecast()
            await asyncio.sleep(FORECAST_SECONDS)

    async def follow_collection(self) -> None:
        """Refreshes the collection until cancelled; ends if there is none: only a start of the daemon begins one."""
        began = time.monotonic()
        while await self.look_at_collection():
            await asyncio.sleep(max(_COLLECTION_SECONDS, (time.monotonic() - began) / _COLLECTION_SHARE))
            began = time.monotonic()

    def refresh(self) -> None:
        """Sets the gauges of the daemon's tables; called before the metrics are read."""
        instruments, sites = self._instruments, self._scheduler.sites
        budget = self._budget.rate
        instruments.budget.set(budget)
        instruments.utilization.set(self._budget.meter.rate() / budget)
        instruments.dispatch_age.set(self._budget.meter.dispatch_age())
        instruments.proofs_waiting.set(len(sites.proofs))
        for state, count in zip((*STATES, SiteState.PAUSED), sites.counts(), strict=True):
            instruments.sites[state].set(count)

    async def _refresh_forecast(self) -> None:
        await self._scheduler.budget_fit.fit_in_steps()
        instruments, figures = self._instruments, await self._forecast.refresh()
        instruments.price.set(figures.benefit.price)
        instruments.expected.labels("uniform").set(figures.benefit.uniform)
        instruments.expected.labels("best").set(figures.benefit.best)
        instruments.expected.labels("scheduled").set(figures.as_scheduled)
        self._show_timeliness(figures.timeliness)
        instruments.late_sites.set(self._explainer.late_sites())
        instruments.noisy_sites.set(self._explainer.noisy_sites())

    def _show_timeliness(self, timeliness: ExpectedTimeliness | None) -> None:
        """Sets the gauges of objectives that are about it; under others there are none."""
        for gauge, figure in (
            (self._instruments.expected_delay, None if timeliness is None else timeliness.delay),
            (self._instruments.expected_in_time, None if timeliness is None else timeliness.in_time),
        ):
            gauge.clear()
            for policy, value in (
                ()
                if figure is None
                else (("scheduled", figure.as_scheduled), ("uniform", figure.uniform), ("best", figure.best))
            ):
                if value is not None:
                    gauge.labels(policy).set(value)

    async def look_at_collection(self) -> bool:
        """Sets the gauges of the collection. Returns False if there is none."""
        try:
            view = await self._collection.view()
        except DatabaseUnavailableError:
            # `storage_failing` reports it; the gauges keep their last values.
            return True
        if view is None:
            return False
        instruments = self._instruments
        for state, count in view.pages.items():
            instruments.collection_pages[state].set(count)
        instruments.collection_requests.set(view.requests)
        instruments.collection_harvest.set(view.harvest_rate or 0.0)
        instruments.collection_relevance.set(view.mean_relevance or 0.0)
        instruments.collection_freshness.set(math.nan if view.freshness is None else view.freshness)
        return True
