"""Number of concurrent requests: the fetcher controller of [C], for a single-server queue with little idle time.

Responses wait in a queue for the single processor that parses and scores them. At every arrival and departure the
controller decides whether to start one more request. It minimises

    cost = idle seconds + QUEUE_COST x (seconds that responses wait in the queue)

[C] leaves the learning to future work and suggests an average-reward algorithm. Here it is Q-learning for semi-Markov
decision processes: with cost c and time τ from one decision to the next, and ρ the mean cost per second,

    Q(s, a) <- Q(s, a) + α (c - ρ τ + min Q(s', ·) - Q(s, a))

The state is the length of the queue and the number in service, the latter in units of what just keeps the processor
busy (mean latency over mean processing time): so the values learned at one latency hold at another. The initial policy
is hand-written (start requests while below nine tenths of that and the queue is short); learning improves on it.

The controllers know nothing of servers. A lower layer keeps slow servers from overload: one request at a time per
server, with `pause_s` between.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from pollerd.errors import InvalidValueError
from pollerd.texts import _

QUEUE_COST = 0.05
"""Cost of a second in the queue, relative to a second of idleness."""
MAX_IN_SERVICE = 512
_QUEUE_EDGES = np.array([1, 2, 3, 5, 9, 17])
_LOAD_EDGES = np.array([0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 2.0])
_SHORT_QUEUE, _NEARLY_ENOUGH, _PREFERENCE = 3, 6, 0.02
FULL_QUEUE = 32
"""Length of the queue from which the learner starts no requests: beyond it there is nothing to learn."""
_FADE = 0.02
_RHO_FADE = 0.002


def pause_s(interval: float, latency: float, share: float = 1.0) -> float:
    """Returns the seconds from a response to the next request to the same server, all in s, >= 0.

    At least `interval`, and `share` times the latency of the response: a server that slows down gets fewer requests.
    """
    return max(interval, share * latency)


class FetcherController(ABC):
    """Decides on one more request, at each arrival of a response at the processor's queue and each departure."""

    @abstractmethod
    def admits(self, in_service: int, queued: int) -> bool:
        """Returns True if one more request is to be started. Must be called once per decision.

        in_service: requests under way; queued: responses waiting or being processed.
        """

    def responded(self, latency: float) -> None:
        """Records the latency of a response, s."""
        return

    def processed(self, duration: float) -> None:
        """Records the processing time of a response, s."""
        return

    def passed(self, elapsed: float, idle: float, waited: float) -> None:
        """Records the seconds since the last decision, the processor's idle seconds, and queue length times seconds."""
        return


class Fixed(FetcherController):
    """A constant number of concurrent requests, >= 1."""

    def __init__(self, requests: int) -> None:
        if requests < 1:
            raise InvalidValueError("requests", _("at least 1"), requests)
        self._requests = requests

    def admits(self, in_service: int, queued: int) -> bool:
        return in_service < self._requests


class Aimd(FetcherController):
    """Additive increase, multiplicative decrease: a window that grows, and halves when the queue is long.

    longest: length of the queue beyond which the window halves, at most once per window of responses.
    """

    def __init__(self, longest: int = 8) -> None:
        if longest < 1:
            raise InvalidValueError("longest", _("at least 1"), longest)
        self._longest = longest
        self._window, self._since_halved = 1.0, 0

    def admits(self, in_service: int, queued: int) -> bool:
        if queued > self._longest and self._since_halved >= self._window:
            self._window, self._since_halved = max(self._window / 2.0, 1.0), 0
        return in_service < int(self._window)

    def responded(self, latency: float) -> None:
        self._since_halved += 1
        self._window = min(self._window + 1.0 / self._window, MAX_IN_SERVICE)


class Learned(FetcherController):
    """Average-reward Q-learning, as described in the module.

    step α, 0 to 1; at 0 the initial policy never changes. exploration, 0 to 1: share of random decisions.
    """

    def __init__(self, rng: np.random.Generator, *, step: float = 0.1, exploration: float = 0.02) -> None:
        if not 0 <= step <= 1:
            raise InvalidValueError("step", _("from 0 to 1"), step)
        if not 0 <= exploration <= 1:
            raise InvalidValueError("exploration", _("from 0 to 1"), exploration)
        self._rng, self._step, self._exploration = rng, step, exploration
        self._cost = np.zeros((len(_QUEUE_EDGES) + 1, len(_LOAD_EDGES) + 1, 2))
        self._cost[..., 1] = _PREFERENCE
        self._cost[:_SHORT_QUEUE, :_NEARLY_ENOUGH, 1] = -_PREFERENCE
        self._latency = self._processing = 0.0
        self._mean_cost = self._mean_time = 0.0
        self._spent = self._elapsed = 0.0
        self._last: tuple[int, int, int] | None = None
        self._greedy = True

    @property
    def cost_rate(self) -> float:
        """ρ: mean cost per second, >= 0."""
        return self._mean_cost / self._mean_time if self._mean_time > 0 else 0.0

    def responded(self, latency: float) -> None:
        self._latency += _FADE * (latency - self._latency) if self._latency else latency

    def processed(self, duration: float) -> None:
        self._processing += _FADE * (duration - self._processing) if self._processing else duration

    def passed(self, elapsed: float, idle: float, waited: float) -> None:
        self._elapsed += elapsed
        self._spent += idle + QUEUE_COST * waited

    def admits(self, in_service: int, queued: int) -> bool:
        queue, load = self._state(in_service, queued)
        choices = self._cost[queue, load]
        self._learn(float(choices.min()))
        self._greedy = bool(self._rng.random() >= self._exploration)
        start = int(choices[1] <= choices[0]) if self._greedy else int(self._rng.integers(2))
        if in_service >= MAX_IN_SERVICE or queued >= FULL_QUEUE:
            start = 0
        self._last, self._elapsed, self._spent = (queue, load, start), 0.0, 0.0
        return bool(start)

    def _state(self, in_service: int, queued: int) -> tuple[int, int]:
        need = self._latency / self._processing if self._processing > 0 else 1.0
        load = in_service / max(need, 1.0)
        return int(_QUEUE_EDGES.searchsorted(queued, "right")), int(_LOAD_EDGES.searchsorted(load, "right"))

    def _learn(self, to_go: float) -> None:
        if self._last is None:
            return
        if self._greedy:
            self._mean_cost += _RHO_FADE * (self._spent - self._mean_cost)
            self._mean_time += _RHO_FADE * (self._elapsed - self._mean_time)
        target = self._spent - self.cost_rate * self._elapsed + to_go
        self._cost[self._last] += self._step * (target - self._cost[self._last])


# The limiter of the live loop, while a topic is set.
#
# The controller's processor is detection, scoring and link extraction; its queue holds the responses that wait for
# these. It decides whenever a response arrives or is processed.

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
