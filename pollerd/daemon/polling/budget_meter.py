"""Measures the budget spent over the last minute, and the time of the last start."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator

_WINDOW_SECONDS = 60


class BudgetMeter:
    """Sums the cost of started polls by second, on the monotonic clock."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._seconds: deque[list[float]] = deque()
        self._last_start = self._began
        self._last_idle = self._began
        self._nothing_due = False
        self.started = 0

    def note_start(self, cost: float) -> None:
        """Counts the start of a poll of this cost."""
        now = time.monotonic()
        self._last_start = now
        self.started += 1
        second = float(int(now))
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += cost
        else:
            self._seconds.append([second, cost])
            self._drop_old(now)

    @contextlib.contextmanager
    def idle(self, nothing_due: bool) -> Iterator[None]:
        """Marks a wait; if nothing is due, it does not count as a stall."""
        self._nothing_due = nothing_due
        try:
            yield
        finally:
            if nothing_due:
                self._last_idle = time.monotonic()
            self._nothing_due = False

    def rate(self) -> float:
        """Returns the cost per second over the last minute (or since the start, if that is shorter)."""
        now = time.monotonic()
        self._drop_old(now)
        span = min(now - self._began, _WINDOW_SECONDS)
        return sum(cost for _, cost in self._seconds) / max(span, 1.0)

    def dispatch_age(self) -> float:
        """Returns the seconds since a poll last started while sites were due; 0 while none are."""
        if self._nothing_due:
            return 0.0
        return max(0.0, time.monotonic() - max(self._last_start, self._last_idle))

    def _drop_old(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] < now - _WINDOW_SECONDS:
            self._seconds.popleft()
