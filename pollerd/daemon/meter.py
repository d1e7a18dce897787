"""How much of the budget was spent over the last minute, and when a poll last started."""

from __future__ import annotations

import time
from collections import deque

_WINDOW_SECONDS = 60


class Meter:
    """Counts the cost of started polls by second, on the monotonic clock."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._seconds: deque[list[float]] = deque()
        self._last_start = self._began
        self._last_idle = self._began
        self.started = 0

    def note_start(self, cost: float) -> None:
        """A poll of this cost started."""
        now = time.monotonic()
        self._last_start = now
        self.started += 1
        second = float(int(now))
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += cost
        else:
            self._seconds.append([second, cost])
            self._drop_old(now)

    def note_idle(self) -> None:
        """Nothing is due: that nothing starts is no fault."""
        self._last_idle = time.monotonic()

    def rate(self) -> float:
        """Cost per second spent over the last minute (or since the start, when that is shorter)."""
        now = time.monotonic()
        self._drop_old(now)
        span = min(now - self._began, _WINDOW_SECONDS)
        return sum(cost for _, cost in self._seconds) / max(span, 1.0)

    def dispatch_age(self) -> float:
        """Seconds since a poll last started while sites were due; 0 while none are."""
        return max(0.0, time.monotonic() - max(self._last_start, self._last_idle))

    def _drop_old(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] < now - _WINDOW_SECONDS:
            self._seconds.popleft()
