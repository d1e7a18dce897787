"""Measures the lag of the event loop: the maximum of the last seconds."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from pollerd.telemetry import Instruments

_EVERY_SECONDS = 0.05
_KEPT_SECONDS = 15
"""Window of the gauge: no shorter than the interval between two scrapes of Prometheus."""


class LagWatch:
    """Sets a timer twenty times per second while polls start and end, and records its delay.

    While the daemon is idle it sets no timer; then only marked iterations of the loop are measured.
    """

    def __init__(self, instruments: Instruments) -> None:
        """Must be called inside the running loop."""
        self._loop = asyncio.get_running_loop()
        self._worst: deque[tuple[int, float]] = deque(maxlen=_KEPT_SECONDS)
        self._timer: asyncio.TimerHandle | None = None
        self._marked = False
        instruments.loop_lag.set_function(self.worst)

    def worst(self) -> float:
        """Returns the largest lag of the last fifteen seconds, s."""
        since = time.monotonic() - _KEPT_SECONDS
        return max((late for second, late in self._worst if second >= since), default=0.0)

    def begin(self) -> None:
        """Sets the timer; called when a poll has started or ended while others are in flight."""
        if self._timer is None:
            self._timer = self._loop.call_later(_EVERY_SECONDS, self._ring, time.monotonic() + _EVERY_SECONDS)

    def end(self) -> None:
        """Stops the timer; called when no polls are in flight."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def mark(self) -> None:
        """Measures this iteration of the loop, from now to its end."""
        if not self._marked:
            self._marked = True
            self._loop.call_soon(self._turned, time.monotonic())

    def _ring(self, due: float) -> None:
        self._timer = None
        self._note(time.monotonic() - due)

    def _turned(self, began: float) -> None:
        self._marked = False
        self._note(time.monotonic() - began)

    def _note(self, late: float) -> None:
        second = int(time.monotonic())
        if self._worst and self._worst[-1][0] == second:
            late = max(late, self._worst.pop()[1])
        self._worst.append((second, late))
