"""The log of expected changes, kept minute by minute: a change of budget must not alter the past."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog

from pollerd.daemon.explain import ScheduleExplainer
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import SiteState
from pollerd.storage.history import HistoryStore, YieldMinute
from pollerd.telemetry import Instruments

_MINUTE = 60.0
_HOUR = 3_600.0
_POLLED = (SiteState.ACTIVE, SiteState.BACKING_OFF)


class YieldLog:
    """Writes a row a minute, for the web pages; a minute that cannot be written is left out."""

    def __init__(
        self,
        *,
        explainer: ScheduleExplainer,
        history: HistoryStore,
        clock: Callable[[], float],
        instruments: Instruments,
        by_state: Callable[[], Mapping[SiteState, int]],
    ) -> None:
        """by_state: returns the number of sites in each state."""
        self._explainer, self._history, self._clock = explainer, history, clock
        self._instruments, self._by_state = instruments, by_state
        self._done, self._cpu = instruments.done(), time.process_time()
        self._log = structlog.get_logger("pollerd.yields")

    async def run(self) -> None:
        """Writes until cancelled."""
        began = time.monotonic()
        while True:
            await asyncio.sleep(_MINUTE - self._clock() % _MINUTE)
            ended = time.monotonic()
            try:
                await self.note(min(ended - began, _MINUTE))
            except DatabaseUnavailableError as error:
                self._log.warning("yield_not_stored", reason=str(error))
            began = ended

    async def note(self, seconds: float) -> None:
        """Writes what was expected of the last `seconds`, which end now, and what was done since the last call."""
        view, share = self._explainer.allocation(), seconds / _HOUR
        expected = (
            view.expected_detections_per_hour_as_scheduled,
            view.expected_detections_per_hour_uniform,
            view.expected_detections_per_hour_best,
        )
        scheduled, uniform, best = ((value or 0.0) * share for value in expected)
        done, cpu = self._instruments.done(), time.process_time()
        states = self._by_state()
        minute = YieldMinute(
            self._clock() - seconds / 2,
            seconds,
            scheduled,
            uniform,
            best,
            polls=done.polls - self._done.polls,
            ignored=done.ignored - self._done.ignored,
            bytes=done.bytes - self._done.bytes,
            cpu=cpu - self._cpu,
            site_seconds=seconds * sum(states.get(state, 0) for state in _POLLED),
        )
        await self._history.add_yield(minute)
        self._done, self._cpu = done, cpu
