"""Fetchers, servers and one response processor in simulated time, for the fetcher controller ([C], figure 2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from pollerd.crawler.concurrency import FetcherController, pause_s


@dataclass(frozen=True)
class LatencyPhase:
    """Duration of a phase and the mean latency of each server in it, all in s."""

    duration: float
    latency: Sequence[float]


@dataclass
class PhaseTotals:
    """Totals of a phase: seconds, idle seconds, queue length times seconds, responses processed, starts by server."""

    duration: float = 0.0
    idle: float = 0.0
    waited: float = 0.0
    processed: int = 0
    starts: list[int] = field(default_factory=list)
    most_at_once: list[int] = field(default_factory=list)


class ResponseQueue:
    """Runs one controller. Requests go to the server that has been ready for longest.

    phases: each with the same number of latencies. processing: mean seconds per response, exponential; latencies are
    gamma distributed with shape 4. interval: least seconds between a server's response and its next request.
    """

    def __init__(
        self, phases: Sequence[LatencyPhase], processing: float, interval: float, rng: np.random.Generator
    ) -> None:
        self._phases, self._processing, self._interval, self._rng = phases, processing, interval, rng

    def run(self, controller: FetcherController) -> list[PhaseTotals]:
        """Returns the totals of each phase."""
        servers = len(self._phases[0].latency)
        self._now, self._busy = 0.0, False
        self._queue: deque[None] = deque()
        self._events: list[tuple[float, int, int, float]] = []
        self._number = self._in_service = self._since_decision = 0
        self._ready: deque[int] = deque(range(servers))
        self._under_way = [0] * servers
        self._last = (0.0, 0.0, 0.0)
        return [self._phase(phase, controller) for phase in self._phases]

    def _phase(self, phase: LatencyPhase, controller: FetcherController) -> PhaseTotals:
        servers = len(phase.latency)
        totals, end = PhaseTotals(starts=[0] * servers, most_at_once=[0] * servers), self._now + phase.duration
        self._decide(phase, controller, totals, (0.0, 0.0, 0.0))
        marked = (0.0, 0.0, 0.0)
        while self._events and self._events[0][0] < end:
            at, _, server, seconds = heappop(self._events)
            self._pass(at, totals)
            if server < 0:
                self._departed(seconds, controller, totals)
            elif seconds >= 0.0:
                self._arrived(server, seconds, controller)
            else:
                self._ready.append(server)
                if self._in_service or self._busy:
                    continue
            marked = self._decide(phase, controller, totals, marked)
        self._pass(end, totals)
        return totals

    def _pass(self, until: float, totals: PhaseTotals) -> None:
        elapsed = until - self._now
        totals.duration += elapsed
        totals.idle += 0.0 if self._busy else elapsed
        totals.waited += elapsed * len(self._queue)
        self._now = until

    def _departed(self, seconds: float, controller: FetcherController, totals: PhaseTotals) -> None:
        totals.processed += 1
        controller.processed(seconds)
        self._busy = False
        self._work()

    def _arrived(self, server: int, latency: float, controller: FetcherController) -> None:
        self._in_service -= 1
        self._under_way[server] -= 1
        controller.responded(latency)
        self._push(pause_s(self._interval, latency), server, -1.0)
        self._queue.append(None)
        self._work()

    def _work(self) -> None:
        if self._queue and not self._busy:
            self._queue.popleft()
            self._busy = True
            seconds = float(self._rng.exponential(self._processing))
            self._push(seconds, -1, seconds)

    def _decide(
        self,
        phase: LatencyPhase,
        controller: FetcherController,
        totals: PhaseTotals,
        marked: tuple[float, float, float],
    ) -> tuple[float, float, float]:
        """Reports the time since the last decision, and starts a request if the controller wants one."""
        total = (totals.duration, totals.idle, totals.waited)
        controller.passed(*(now - then for now, then in zip(total, marked, strict=True)))
        admitted = controller.admits(self._in_service, len(self._queue) + self._busy)
        # Without requests in progress there would be no further event.
        if self._ready and (admitted or not (self._in_service or self._busy)):
            self._start(self._ready.popleft(), phase, totals)
        return total

    def _start(self, server: int, phase: LatencyPhase, totals: PhaseTotals) -> None:
        self._in_service += 1
        self._under_way[server] += 1
        totals.starts[server] += 1
        totals.most_at_once[server] = max(totals.most_at_once[server], self._under_way[server])
        latency = float(self._rng.gamma(4.0, phase.latency[server] / 4.0))
        self._push(latency, server, latency)

    def _push(self, delay: float, server: int, seconds: float) -> None:
        self._number += 1
        heappush(self._events, (self._now + delay, self._number, server, seconds))
