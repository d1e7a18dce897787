"""Limits concurrent requests while a topic is set: the fetcher controller of [C] in the live loop.

The controller's processor is detection, scoring and link extraction; its queue holds the responses that wait for these.
It decides whenever a response arrives or is processed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pollerd.crawling.control.concurrency import FetcherController

_OPEN_MOST = 2
"""Most unused permits: more would be granted for a load that has passed."""


class ConcurrencyLimiter:
    """Counts the requests in flight, and asks the controller for permits."""

    def __init__(self, controller: FetcherController, clock: Callable[[], float] = time.monotonic) -> None:
        self._controller, self._clock = controller, clock
        self._in_service = self._queued = self._open = 0
        self._looked_at = clock()
        self._elapsed = self._idle = self._waited = 0.0

    @property
    def may_start(self) -> bool:
        """Whether one more request may start now; always true with nothing in flight, as no event would trigger a
        decision.
        """
        return self._open > 0 or self._in_service + self._queued == 0

    def started(self) -> None:
        """Notes that a request started."""
        self._pass()
        self._open = max(self._open - 1, 0)
        self._in_service += 1

    def responded(self, latency: float) -> None:
        """Notes that a request ended after `latency` seconds, and that its response waits to be processed."""
        self._pass()
        self._in_service -= 1
        self._queued += 1
        self._controller.responded(latency)
        self._decide()

    def processed(self, duration: float) -> None:
        """Notes that a response was processed in `duration` seconds."""
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
