"""How many requests at once while a topic is set: the fetcher controller of [C] at the live loop.

Its processor is what detects, scores and extracts links; its queue the responses that wait for that. It decides at
each response that arrives, and at each that is done with.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pollerd.crawling.control.concurrency import FetcherController

_OPEN_MOST = 2
"""Permissions that may stand unused: more would be granted for a load that is no more."""


class ConcurrencyLimiter:
    """Counts what is under way, and asks the controller about one more."""

    def __init__(self, controller: FetcherController, clock: Callable[[], float] = time.monotonic) -> None:
        self._controller, self._clock = controller, clock
        self._in_service = self._queued = self._open = 0
        self._looked_at = clock()
        self._elapsed = self._idle = self._waited = 0.0

    @property
    def may_start(self) -> bool:
        """Whether one more request may start now; where nothing is under way nobody could decide, and it may."""
        return self._open > 0 or self._in_service + self._queued == 0

    def started(self) -> None:
        """A request started."""
        self._pass()
        self._open = max(self._open - 1, 0)
        self._in_service += 1

    def responded(self, latency: float) -> None:
        """A request is over after so many seconds, and its response waits to be read."""
        self._pass()
        self._in_service -= 1
        self._queued += 1
        self._controller.responded(latency)
        self._decide()

    def processed(self, duration: float) -> None:
        """A response was read, which took so many seconds."""
        self._pass()
        self._queued -= 1
        self._controller.processed(duration)
        self._decide()

    def _pass(self) -> None:
        now = self._clock()
        span, self._looked_at = now - self._looked_at, now
        self._elapsed += span
        self._idle += span * (self._queued == 0)
        self._waited += span * max(self._queued - 1, 0)

    def _decide(self) -> None:
        self._controller.passed(self._elapsed, self._idle, self._waited)
        self._elapsed = self._idle = self._waited = 0.0
        admitted = self._controller.admits(self._in_service, self._queued)
        self._open = min(self._open + admitted, _OPEN_MOST)
