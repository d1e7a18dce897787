"""One clock for the whole daemon: wall time that never runs backwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

_SET_SECONDS = 2.0
"""A wall clock that differs from ours by more was set."""
_SLOWED = 0.1
"""Share of the time that goes by unseen while the wall clock is behind."""


since_boot: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
"""Seconds that pass whatever the wall clock is set to; on Linux also while the machine is suspended."""


class SteadyClock:
    """UTC epoch seconds that advance with the time since boot, through a suspend, too.

    A wall clock set back does not set this one back, for no site would come due for as long: it runs a tenth slower
    until the wall clock has caught up. A wall clock set ahead by more than two seconds is followed at once, and
    `on_set` is called with how many seconds it was, so that what was to wait still does.
    """

    def __init__(
        self,
        steady: Callable[[], float] = since_boot,
        wall: Callable[[], float] = time.time,
        *,
        on_set: Callable[[float], None] | None = None,
    ) -> None:
        """`steady` never runs backwards; `wall` gives UTC epoch seconds and may be set.

        `on_set`: called with the seconds by which the wall clock was set ahead.
        """
        self._steady, self._wall, self._on_set = steady, wall, on_set
        self._last = steady()
        self._now = wall()

    def __call__(self) -> float:
        """Now, UTC epoch seconds."""
        steady, wall = self._steady(), self._wall()
        passed = steady - self._last
        if passed > 0.0:  # `max` would take as long as all the rest: this is asked several times a poll
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
