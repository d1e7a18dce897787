"""When the dispatcher chooses again: never later than something is due, never more often than choosing may cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_CHOOSING_SHARE = 0.05
"""With so many sites that choosing takes longer than this share of a tick, it is done for a longer time ahead."""
_CHOOSING_MOST = 0.25
"""Share of the time that choosing may take even where all that was chosen could start at once (robots.txt of hosts that
are new): the rest is for answers and API calls."""
_TICK_CAP_SECONDS = 1.0
_AHEAD_SECONDS, _AHEAD_POLLS = 1.0, 16
"""Choosing one site costs nearly what choosing a few does: up to so many are chosen up to so far ahead, however short a
tick. When something comes meanwhile that may be polled at once, those that have not started are chosen anew."""


class Cadence:
    """Turns what one choice took, and what it found, into the time of the next. Times are monotonic seconds."""

    def __init__(self, tick_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._shortest, self._clock = tick_seconds, clock
        self.tick = tick_seconds
        """Seconds that one choice looks ahead."""
        self.choose_again_at = -math.inf
        """No choice before, even where all that was chosen has started."""
        self.rested_at = -math.inf
        """No choice before where nothing was chosen, whatever wakes the dispatcher."""
        self.due_in = math.inf
        """Seconds from the last choice until a site that it passed over may be polled; inf: unknown or never."""
        self.nothing_due = False
        """Whether the last choice found no site due."""

    def number(self, rate: float, *, ahead: bool) -> int:
        """How many sites to choose at a budget of `rate` per second.

        `ahead`: may be chosen before they can start. False where what is found decides what comes next.
        """
        soon = min(int(rate * _AHEAD_SECONDS), _AHEAD_POLLS) if ahead else 0
        return max(1, soon, int(rate * self.tick))

    def chose(self, took: float, due_in: float, *, nothing_due: bool) -> None:
        """Notes a choice that took so many seconds and has just ended."""
        now = self._clock()
        self.tick = min(max(self._shortest, took / _CHOOSING_SHARE), _TICK_CAP_SECONDS)
        self.choose_again_at = now + took * (1 / _CHOOSING_MOST - 1)
        self.rested_at = now + took * (1 / _CHOOSING_SHARE - 1)
        self.due_in, self.nothing_due = due_in, nothing_due

    def looked(self, took: float) -> None:
        """Notes a look for the next due site, which took so many seconds: it counts like a choice."""
        self.rested_at += took * (1 / _CHOOSING_SHARE - 1)
