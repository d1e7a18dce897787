"""One clock for the whole daemon: wall time that never runs backwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

_SET_SECONDS = 2.0
"""Difference from the wall clock above which that clock must have been set."""
_SLOWED = 0.1
"""Share of the elapsed time that is skipped while the wall clock is behind."""


since_boot: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
"""Seconds independent of changes to the wall clock; on Linux they include suspends."""


class SteadyClock:
    """UTC epoch seconds that advance with the time since boot, including suspends.

    If the wall clock is set back, this clock is not, since no site would become due for that long: it runs a tenth
    slower until the wall clock has caught up. If the wall clock is set ahead by more than two seconds, this clock
    follows at once and calls `on_set` with the seconds, so that pending waits can be extended.
    """

    def __init__(
        self,
        steady: Callable[[], float] = since_boot,
        wall: Callable[[], float] = time.time,
        *,
        on_set: Callable[[float], None] | None = None,
    ) -> None:
        """`steady` never runs backwards; `wall` returns UTC epoch seconds and may be set.

        `on_set`: called with the seconds by which the wall clock was set ahead.
        """
        self._steady, self._wall, self._on_set = steady, wall, on_set
        self._last = steady()
        self._now = wall()

    def __call__(self) -> float:
        """Returns the current time, UTC epoch seconds."""
        steady, wall = self._steady(), self._wall()
        passed = steady - self._last
        if passed > 0.0:  # `max` would double the cost; this is called several times per poll
            self._last = steady
        else:
            passed = 0.0
        ahead = wall - (self._now + passed)
        if ahead < -_SET_SECONDS:
            passed -= min(passed * _SLOWED, -ahead)
        self._now += passed
        if ahead > _SET_SECONDS:
            self._now += ahead
            if self._on_set is not None:
                self._on_set(ahead)
        return self._now
