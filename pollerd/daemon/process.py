"""The process: its clock, the lag of its event loop, and periods in which nothing could be polled."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from pollerd.telemetry import Instruments
from pollerd.texts import N_, _

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


# The lag of the event loop: the maximum of the last seconds.

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


# Periods in which nothing could be polled, through no fault of any site.


class BlindCause(StrEnum):
    """Why nothing could be polled."""

    LINK = "our own link was down"
    DATABASE = "the database took no commits"
    STOPPED = "the daemon did not run"

    @property
    def in_words(self) -> str:
        """The cause as messages name it."""
        return _(_BLIND[self])


_BLIND = {
    BlindCause.LINK: N_("our own link was down"),
    BlindCause.DATABASE: N_("the database took no commits"),
    BlindCause.STOPPED: N_("the daemon did not run"),
}


class BlindPeriod(NamedTuple):
    """One period; times in epoch s."""

    cause: BlindCause
    since: float
    until: float


class ObservationGaps:
    """Notes when such periods begin and end."""

    def __init__(self) -> None:
        self._since: dict[BlindCause, float] = {}
        self._ended: asyncio.Queue[BlindPeriod] = asyncio.Queue(maxsize=1_000)

    def begin(self, cause: BlindCause, now: float) -> None:
        """Notes the begin; a period under way goes on."""
        self._since.setdefault(cause, now)

    def end(self, cause: BlindCause, now: float) -> None:
        """Notes the end; without a begin nothing."""
        since = self._since.pop(cause, None)
        if since is not None:
            self.note(BlindPeriod(cause, since, now))

    def note(self, period: BlindPeriod) -> None:
        """Notes a whole period; the oldest are forgotten where nobody asks for them."""
        if self._ended.full():
            self._ended.get_nowait()
        self._ended.put_nowait(period)

    async def next(self) -> BlindPeriod:
        """Waits for a period to end, and returns it."""
        return await self._ended.get()
