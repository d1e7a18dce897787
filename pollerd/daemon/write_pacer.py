"""The write pacer: times the writing of requests, however long their connections took."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

WRITTEN_SHARE = 0.97
"""Share of the budget that may be written. With tolerance t, share s and network delay that varies by j, the server
sees at most s·budget·(T + t + j) + 1 requests in a window of T seconds: within budget·T + 1 as long as s·(1 + (t + j) /
T) <= 1, so for j up to 20 ms in a window of one second, and up to 20 ms times T in longer ones."""
_TOLERANCE_SECONDS = 0.01
"""Largest delay of a write that does not lose budget."""
_SHARED_TURN_SECONDS = 0.003
"""Shortest wait: at high rates several writes share one iteration of the loop, within the tolerance."""
_BACKLOG_SECONDS = 0.25
_BACKLOG_LEAST = 2.0

Write = Callable[[], bool]
"""Writes a request at once; returns False if its connection has been closed meanwhile and nothing was written."""


class _Waiting(NamedTuple):
    cost: float
    write: Write
    written: asyncio.Future[bool]


class WritePacer:
    """Writes the requests of polls one by one, spaced by the budget.

    The gate spaces dispatches, but name lookup, TCP and TLS then take varying times, so that polls granted one by one
    may become ready together. The pacer writes each synchronously when it is due (the generic cell rate algorithm on
    the times of writing). In any window of T >= max(1, 1/budget) seconds at most budget·T + 1 requests (of cost 1) are
    written.
    """

    def __init__(
        self, budget: float, *, last_write: float = -math.inf, may_write: Callable[[], bool] | None = None
    ) -> None:
        """`last_write` (monotonic s): that of the previous run. Must be called inside the running loop.

        may_write: asked right before each write; if it says no, the poll is cancelled, as if it had never begun.
        """
        self._may_write = may_write
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._waiting_cost = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._budget = budget
        self._due, self._cost = last_write, 1.0
        self._turn_due: float | None = None
        self._turn_cost = 0.0
        self.keeps_up = asyncio.Event()
        """Cleared while too many polls wait to be written; no more are dispatched then."""
        self.keeps_up.set()

    @property
    def budget(self) -> float:
        """Cost per second that may be spent."""
        return self._budget

    @budget.setter
    def budget(self, value: float) -> None:
        """Waits that have begun keep the share of them that has passed.

        So in any window at most 1 more is written than the integral of the budget over it, also where it rises: nodes
        that share a budget are given more of it and less, again and again.
        """
        now = time.monotonic()
        if value > self._budget and (left := self._next() - now) > 0:
            self._due = now + left * self._budget / value - self._cost / (value * WRITTEN_SHARE)
        self._budget = value
        self._watch_backlog()
        self._set_timer()

    def send(self, cost: float, write: Write) -> bool | Awaitable[bool]:
        """Calls `write` when a poll of this cost is due; if that is now, returns its result.

        Spends nothing if nothing was written. Raises what `write` raises, and CancelledError if nothing may be written.
        """
        if not self._waiting and (now := time.monotonic()) >= self._next():
            return self._write(cost, write, now)
        waiting = _Waiting(cost, write, self._loop.create_future())
        self._waiting.append(waiting)
        self._waiting_cost += cost
        self._watch_backlog()
        if self._timer is None:
            self._set_timer()
        return waiting.written

    def _next(self) -> float:
        """Returns when the next write is due (monotonic s)."""
        return self._due + self._seconds(self._cost)

    def _seconds(self, cost: float) -> float:
        return cost / (self._budget * WRITTEN_SHARE)

    def _write(self, cost: float, write: Write, now: float) -> bool:
        if self._may_write is not None and not self._may_write():
            raise asyncio.CancelledError
        if not write():
            return False
        if self._turn_due is None:
            self._turn_due, self._turn_cost = self._next(), 0.0
            self._loop.call_soon(self._end_turn)
        else:
            self._turn_cost += self._cost
        self._due, self._cost = max(self._next(), now - _TOLERANCE_SECONDS), cost
        return True

    def _end_turn(self) -> None:
        """Corrects the due time: the loop sends writes at the end of its iteration, so a long one delays all of its
        writes.
        """
        assert self._turn_due is not None
        first = max(self._turn_due, time.monotonic() - _TOLERANCE_SECONDS)
        self._due = max(self._due, first + self._seconds(self._turn_cost))
        self._turn_due = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            wait = max(self._next() - time.monotonic(), _SHARED_TURN_SECONDS)
            # Through the ready queue: data written by a timer itself is sent in another iteration than the one
            # measured.
            self._timer = self._loop.call_later(wait, self._loop.call_soon, self._write_due)

    def _write_due(self) -> None:
        self._timer = None
        while self._waiting:
            waiting = self._waiting[0]
            if not waiting.written.done():
                if (now := time.monotonic()) < self._next():
                    break
                try:
                    waiting.written.set_result(self._write(waiting.cost, waiting.write, now))
                except asyncio.CancelledError:
                    waiting.written.cancel()
                except Exception as error:  # noqa: BLE001 (raised where the write is awaited)
                    waiting.written.set_exception(error)
            self._waiting.popleft()
            self._waiting_cost -= waiting.cost
        self._watch_backlog()
        self._set_timer()

    def _watch_backlog(self) -> None:
        if not self._waiting:
            self._waiting_cost = 0.0
        if self._waiting_cost <= max(_BACKLOG_LEAST, self._budget * _BACKLOG_SECONDS):
            self.keeps_up.set()
        else:
            self.keeps_up.clear()
