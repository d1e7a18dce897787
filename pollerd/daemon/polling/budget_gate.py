"""The budget gate: lets polls start at even spacing, however busy the event loop is."""

from __future__ import annotations

import asyncio
import math
import time

from asyncio_throttle.throttler import Throttler

from pollerd.daemon.state.settings import check_budget

_TOLERANCE_SECONDS = 0.02
"""Largest delay of a start that does not lose budget: the gate catches up on stalls of the loop up to this length."""
_RATE_SHARE = 0.96
"""Share of the budget that the gate grants, below the pacer's share: otherwise a backlog left by one slow connection
would never shrink. With tolerance t and share s, a window of T >= 1 s contains at most s·budget·(T + t) + 1 starts,
which stays within budget·T + 1 as long as s·(1 + t) <= 1."""
_WAIT_FLOOR_SECONDS = 0.005
"""Shortest wait: at high rates several starts share one iteration of the loop, which lowers the cost of each."""
_EARLY_SECONDS = 0.001
"""uvloop's timers count whole milliseconds: they ring up to this early, and the turn would take a second wait."""


class BudgetGate(Throttler):
    """asyncio-throttle with room for one start per 1/rate, whose log holds the time a start was *due*.

    Throttler itself logs the actual start time, so every late wake-up of the loop loses budget (at 1,000 per second
    most of it), and with room for many starts it grants them in a burst. Logging the due time makes it the generic cell
    rate algorithm: even spacing, no drift, and in any window of T >= max(1, 1/budget) seconds at most budget·T + 1
    starts (of cost 1), while at least 95 % of the budget is used as long as polls are waiting.
    """

    def __init__(self, budget: float, *, last_start: float = -math.inf) -> None:
        """`last_start` (monotonic s): last start of the previous run, since the window must hold across a restart."""
        self._budget = check_budget(budget)
        self._last_cost = 1.0
        super().__init__(rate_limit=1, period=1 / (self._budget * _RATE_SHARE), retry_interval=_WAIT_FLOOR_SECONDS)
        self._due = last_start
        self._changed = asyncio.Event()
        self._waiting = 0
        self._task_logs.append(last_start)

    @property
    def budget(self) -> float:
        """Cost per second that may be spent."""
        return self._budget

    @budget.setter
    def budget(self, value: float) -> None:
        self._budget = check_budget(value)
        self.period = self._last_cost / (self._budget * _RATE_SHARE)
        self._changed.set()

    @property
    def next_turn_due(self) -> float:
        """Time by which the next waiter is granted (monotonic s); -inf: nobody waits."""
        return self._due + self.period if self._waiting else -math.inf

    async def acquire(self, cost: float = 1.0) -> None:
        """Waits for permission to start a poll that costs `cost` of the budget."""
        self._waiting += 1
        try:
            await self._turn_comes()
        finally:
            self._waiting -= 1
        await super().acquire()  # type: ignore[no-untyped-call]
        now = self._task_logs.pop()
        self._due = max(self._due + self.period, now - _TOLERANCE_SECONDS)
        self._task_logs.append(self._due)
        self._last_cost = cost
        self.period = cost / (self._budget * _RATE_SHARE)

    async def _turn_comes(self) -> None:
        """Waits in one sleep, unless the budget changes or another waiter is first; Throttler would poll instead.

        Wakes slightly late at high rates, so that several starts share an iteration of the loop. The timer sets the
        same event as a change of the budget: a timeout would cost a cancellation and two exceptions each turn.
        """
        loop = asyncio.get_running_loop()
        while (wait := self._due + self.period - time.monotonic()) >= 0:
            self._changed.clear()
            timer = loop.call_later(max(wait + _EARLY_SECONDS, _WAIT_FLOOR_SECONDS), self._changed.set)
            try:
                await self._changed.wait()
            finally:
                timer.cancel()
