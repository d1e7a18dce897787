"""Brings the gauges up to date."""

from __future__ import annotations

import asyncio
import math
import time

import numpy as np

from pollerd.daemon.collection import CollectionOutlook
from pollerd.daemon.fleet import Fleet
from pollerd.daemon.forecast import Forecast
from pollerd.daemon.gate import BudgetGate
from pollerd.daemon.meter import Meter
from pollerd.daemon.outlook import Outlook
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import STATES, SiteState
from pollerd.telemetry import Instruments

_EVERY_SECONDS = 1.0
_OUTLOOK_EVERY = 15
_COLLECTION_EVERY = 5
_COLLECTION_SHARE = 0.05
"""Of the time at most: counting millions of pages takes a second or more."""


class Gauges:
    """Looks at the daemon each second, at the forecast each fifteenth, at the collection each fifth or more rarely."""

    def __init__(
        self,
        fleet: Fleet,
        gate: BudgetGate,
        meter: Meter,
        forecast: Forecast,
        outlook: Outlook,
        collection: CollectionOutlook,
        instruments: Instruments,
    ) -> None:
        self._fleet, self._gate, self._meter = fleet, gate, meter
        self._forecast, self._outlook, self._collection = forecast, outlook, collection
        self._instruments = instruments

    async def run(self) -> None:
        """Until cancelled."""
        turn, next_count = 0, 0.0
        while True:
            self._look()
            if turn % _OUTLOOK_EVERY == 0:
                await self._look_ahead()
            if turn % _COLLECTION_EVERY == 0 and (began := time.monotonic()) >= next_count:
                await self._look_at_collection()
                next_count = began + (time.monotonic() - began) / _COLLECTION_SHARE
            turn += 1
            await asyncio.sleep(_EVERY_SECONDS)

    def _look(self) -> None:
        instruments, sites = self._instruments, self._fleet.sites
        budget = self._gate.budget
        instruments.budget.set(budget)
        instruments.utilization.set(self._meter.rate() / budget)
        instruments.dispatch_age.set(self._meter.dispatch_age())
        n = sites.size
        occupied = sites.occupied()
        paused = occupied & sites.paused[:n]
        counts = np.bincount(sites.state[:n][occupied & ~paused], minlength=len(STATES))
        for state, count in zip(STATES, counts.tolist(), strict=True):
            instruments.sites[state].set(count)
        instruments.sites[SiteState.PAUSED].set(int(paused.sum()))

    async def _look_ahead(self) -> None:
        self._fleet.fit_budget()
        instruments, figures = self._instruments, await self._forecast.refresh()
        instruments.price.set(figures.benefit.price)
        instruments.expected.labels("uniform").set(figures.benefit.uniform)
        instruments.expected.labels("best").set(figures.benefit.best)
        instruments.expected.labels("scheduled").set(figures.as_scheduled)
        instruments.late_sites.set(self._outlook.late_sites())
        instruments.noisy_sites.set(self._outlook.noisy_sites())

    async def _look_at_collection(self) -> None:
        try:
            view = await self._collection.view()
        except DatabaseUnavailableError:
            # `storage_failing` tells of it; what was seen last stays.
            return
        if view is None:
            return
        instruments = self._instruments
        for state, count in view.pages.items():
            instruments.collection_pages[state].set(count)
        instruments.collection_requests.set(view.requests)
        instruments.collection_harvest.set(view.harvest_rate or 0.0)
        instruments.collection_relevance.set(view.mean_relevance or 0.0)
        instruments.collection_freshness.set(math.nan if view.freshness is None else view.freshness)
