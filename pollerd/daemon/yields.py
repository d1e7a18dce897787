"""The log of expected changes, kept minute by minute: a change of budget must not alter the past."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from pollerd.daemon.explain import ScheduleExplainer
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.history import HistoryStore, YieldMinute

_MINUTE = 60.0
_HOUR = 3_600.0


class YieldLog:
    """Writes a row a minute, for the web pages; a minute that cannot be written is left out."""

    def __init__(self, *, explainer: ScheduleExplainer, history: HistoryStore, clock: Callable[[], float]) -> None:
        self._explainer, self._history, self._clock = explainer, history, clock
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
        """Writes what was expected of the last `seconds`, which end now."""
        view, share = self._explainer.allocation(), seconds / _HOUR
        expected = (
            view.expected_detections_per_hour_as_scheduled,
            view.expected_detections_per_hour_uniform,
            view.expected_detections_per_hour_best,
        )
        scheduled, uniform, best = ((value or 0.0) * share for value in expected)
        await self._history.add_yield(YieldMinute(self._clock() - seconds / 2, seconds, scheduled, uniform, best))
