"""How late the event loop runs: the worst of the last while, so that no stall falls between two looks."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from pollerd.telemetry import Instruments

_EVERY_SECONDS = 0.05
_KEPT = 15
_KEPT_SECONDS = 1.0
"""The gauge tells the worst of the latest 15 stretches of a second: no less than between two looks of Prometheus."""


class LagWatch:
    """Sets a timer twenty times a second and notes how late it rings."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self._worst: deque[float] = deque([0.0], maxlen=_KEPT)

    async def run(self) -> None:
        """Until cancelled."""
        stretch = time.monotonic()
        while True:
            due = time.monotonic() + _EVERY_SECONDS
            await asyncio.sleep(_EVERY_SECONDS)
            now = time.monotonic()
            self._worst[-1] = max(self._worst[-1], now - due)
            self._instruments.loop_lag.set(max(self._worst))
            if now - stretch >= _KEPT_SECONDS:
                stretch = now
                self._worst.append(0.0)
