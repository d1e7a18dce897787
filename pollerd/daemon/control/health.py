"""Health checks of the running daemon."""

from __future__ import annotations

import asyncio
import time

from pollerd.daemon.budget import Budget
from pollerd.daemon.outage_filter import OutageFilter
from pollerd.daemon.poll import InFlight, Poller
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.views import Status
from pollerd.errors import DatabaseUnavailableError, SchemaError
from pollerd.model import STATES, SiteState
from pollerd.storage.store import Store
from pollerd.texts import _

_HEALTHY_TICKS = 3
_HEALTHY_FLOOR_SECONDS = 1.0
CHECK_SECONDS = 2.0
"""A health check must be answered even if the database hangs."""


class DaemonHealth:
    """Answers the health checks, and summarises the daemon for the status line."""

    def __init__(
        self,
        *,
        store: Store,
        scheduler: SchedulerState,
        poller: Poller,
        in_flight: InFlight,
        outage_filter: OutageFilter,
        budget: Budget,
        runtime: Runtime,
    ) -> None:
        self._store, self._scheduler, self._poller, self._in_flight = store, scheduler, poller, in_flight
        self._outage_filter, self._budget = outage_filter, budget
        self._storage, self._settings = runtime.health, runtime.settings

    def alive(self) -> bool:
        """Returns whether the poller's loop ran within three ticks (and at least a second) of its due time."""
        limit = max(_HEALTHY_TICKS * self._settings.tick_seconds, _HEALTHY_FLOOR_SECONDS)
        return time.monotonic() - self._poller.next_turn_due <= limit

    async def not_ready(self) -> str | None:
        """Returns why the daemon cannot work (the database); None if it can."""
        if self._storage.failure is not None:
            return self._storage.failure
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._store.check()
        except (DatabaseUnavailableError, SchemaError) as error:
            return str(error)
        except TimeoutError:
            return _("the database does not answer within {check_seconds:g} s", check_seconds=CHECK_SECONDS)
        return None

    @property
    def sites(self) -> int:
        """The number of sites that are polled here."""
        return len(self._scheduler.sites)

    @property
    def offline(self) -> bool:
        """Whether every host fails, so that our own link is down."""
        return self._outage_filter.offline

    def status(self) -> Status:
        """Returns the daemon's current state."""
        sites = self._scheduler.sites
        return Status(
            sites=self.sites,
            in_flight=len(self._in_flight),
            polls=int(sites.polls[: sites.size].sum()),
            changes=int(sites.changes[: sites.size].sum()),
            rate=self._budget.meter.rate(),
            budget=self._budget.rate,
            offline=self.offline,
            storage_failure=self._storage.failure,
            by_state=dict(zip((*STATES, SiteState.PAUSED), sites.counts(), strict=True)),
            loop_lag=self._in_flight.loop_lag,
        )
