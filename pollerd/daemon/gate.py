"""The budget gate: lets a poll start, evenly paced, whatever the event loop is busy with."""

from __future__ import annotations

import math
import time

from asyncio_throttle.throttler import Throttler

from pollerd.errors import InvalidValueError

BUDGET_MIN = 0.01
BUDGET_MAX = 10_000.0

_TOLERANCE_SECONDS = 0.02
"""How late a start may be without being lost: the gate catches up on stalls of the loop up to this long."""
_RATE_SHARE = 0.97
"""Share of the budget that is let through. With tolerance t and share s, a window of T >= 1 s sees at most
s·budget·(T + t) + 1 starts, which stays within budget·T + 1 as long as s·(1 + t) <= 1."""
_WAIT_CAP_SECONDS = 0.1
_WAIT_FLOOR_SECONDS = 0.005
"""Shortest wait: at high rates several starts share one turn of the loop, which costs a fraction of one turn each."""


def check_budget(value: float) -> float:
    """The budget, if it can be kept; InvalidValueError otherwise."""
    if not BUDGET_MIN <= value <= BUDGET_MAX:
        raise InvalidValueError("budget", f"polls per second from {BUDGET_MIN} to {BUDGET_MAX:g}", value)
    return float(value)


class BudgetGate(Throttler):
    """asyncio-throttle with room for one start per 1/rate, whose log holds when the start was *due*.

    Throttler itself logs when a start happened, so every late wake-up of the loop is budget lost for good (at 1,000
    a second most of it), and with room for many starts it lets them all go at once. Logging the due time makes it the
    generic cell rate algorithm: even pacing, no drift, and in any window of T >= max(1, 1/budget) seconds at most
    budget·T + 1 starts (of cost 1), while at least 95 % of the budget is used as long as work is waiting.
    """

    def __init__(self, budget: float, *, last_start: float = -math.inf) -> None:
        """`last_start` (monotonic s): the last start of the run before, for the window must hold across a restart."""
        self._budget = check_budget(budget)
        self._last_cost = 1.0
        super().__init__(rate_limit=1, period=1 / (self._budget * _RATE_SHARE), retry_interval=_WAIT_CAP_SECONDS)
        self._due = last_start
        self.turned_at = time.monotonic()
        self._task_logs.append(last_start)

    @property
    def budget(self) -> float:
        """Cost per second that may be spent."""
        return self._budget

    @budget.setter
    def budget(self, value: float) -> None:
        self._budget = check_budget(value)
        self.period = self._last_cost / (self._budget * _RATE_SHARE)

    def flush(self) -> None:
        """Drops the logged start when its turn is over, else notes how long that takes."""
        self.turned_at = time.monotonic()
        super().flush()  # type: ignore[no-untyped-call]
        if self._task_logs:
            wait = self._due + self.period - time.monotonic()
            self.retry_interval = min(max(wait, _WAIT_FLOOR_SECONDS), _WAIT_CAP_SECONDS)

    async def acquire(self, cost: float = 1.0) -> None:
        """Waits for the turn of a poll that costs `cost` of the budget."""
        await super().acquire()  # type: ignore[no-untyped-call]
        now = self._task_logs.pop()
        self._due = max(self._due + self.period, now - _TOLERANCE_SECONDS)
        self._task_logs.append(self._due)
        self._last_cost = cost
        self.period = cost / (self._budget * _RATE_SHARE)
