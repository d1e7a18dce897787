"""Times the dispatcher's choices: no later than the next due time, no more often than choosing may cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_CHOOSING_SHARE = 0.05
"""If choosing takes longer than this share of a tick, the tick is lengthened."""
_CHOOSING_MOST = 0.25
"""Largest share of the time for choosing even if everything chosen starts at once (robots.txt of new hosts): the rest
is for answers and API calls."""
_TICK_CAP_SECONDS = 1.0
_AHEAD_SECONDS, _AHEAD_POLLS = 1.0, 16
"""Choosing one site costs nearly as much as choosing several: up to this many are chosen up to this far ahead, however
short a tick. If a site becomes due meanwhile, those not started are chosen again."""


class Cadence:
    """Derives the time of the next choice from the duration and result of the last one. Times are monotonic seconds."""

    def __init__(self, tick_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._shortest, self._clock = tick_seconds, clock
        self.tick = tick_seconds
        """Seconds that one choice looks ahead."""
        self.choose_again_at = -math.inf
        """Earliest time of the next choice after polls were started."""
        self.rested_at = -math.inf
        """Earliest time of the next choice after nothing was started, whatever wakes the dispatcher."""
        self.due_in = math.inf
        """Seconds from the last choice until a site that it skipped may be polled; inf: unknown or never."""
        self.nothing_due = False
        """Whether the last choice found no site due."""

    def number(self, rate: float, *, ahead: bool) -> int:
        """Returns how many sites to choose at a budget of `rate` per second.

        `ahead`: sites may be chosen before they can start. False if each answer decides what to request next.
        """
        soon = min(int(rate * _AHEAD_SECONDS), _AHEAD_POLLS) if ahead else 0
        return max(1, soon, int(rate * self.tick))

    def chose(self, took: float, due_in: float, *, nothing_due: bool) -> None:
        """Records a choice that took `took` seconds and has just ended."""
        now = self._clock()
        self.tick = min(max(self._shortest, took / _CHOOSING_SHARE), _TICK_CAP_SECONDS)
        self.choose_again_at = now + took * (1 / _CHOOSING_MOST - 1)
        self.rested_at = now + took * (1 / _CHOOSING_SHARE - 1)
        self.due_in, self.nothing_due = due_in, nothing_due

    def looked(self, took: float) -> None:
        """Records a search for the next due site that took `took` seconds: it counts as a choice."""
        self.rested_at += took * (1 / _CHOOSING_SHARE - 1)
