"""How late the event loop runs: the worst of the last while."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from pollerd.telemetry import Instruments

_EVERY_SECONDS = 0.05
_KEPT_SECONDS = 15
"""The gauge tells the worst of so long: no less than between two looks of Prometheus."""


class LagWatch:
    """As long as polls start and end, sets a timer twenty times a second and notes how late it rings.

    While nothing happens it wakes nobody; then only turns of the loop that are marked are measured.
    """

    def __init__(self, instruments: Instruments) -> None:
        """To be made inside the running loop."""
        self._loop = asyncio.get_running_loop()
        self._worst: deque[tuple[int, float]] = deque(maxlen=_KEPT_SECONDS)
        self._timer: asyncio.TimerHandle | None = None
        self._marked = False
        instruments.loop_lag.set_function(self.worst)

    def worst(self) -> float:
        """Seconds that the loop was late at worst in the last fifteen."""
        since = time.monotonic() - _KEPT_SECONDS
        return max((late for second, late in self._worst if second >= since), default=0.0)

    def begin(self) -> None:
        """A poll has started or ended, and others are under way."""
        if self._timer is None:
            self._timer = self._loop.call_later(_EVERY_SECONDS, self._ring, time.monotonic() + _EVERY_SECONDS)

    def end(self) -> None:
        """No more polls are under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def mark(self) -> None:
        """Measures this turn of the loop, from now to its end."""
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
