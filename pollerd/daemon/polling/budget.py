"""Applies the budget of polls per second wherever it is spent."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from pollerd.daemon.polling.budget_gate import BudgetGate
from pollerd.daemon.polling.budget_meter import BudgetMeter
from pollerd.daemon.polling.write_pacer import WritePacer
from pollerd.daemon.state.settings import BUDGET_MIN

_PENDING_LEAST, _PENDING_MOST, _PENDING_SECONDS = 64, 1_000, 1.5


def robots_allowance(rate: float) -> float:
    """Returns the robots.txt requests per second: half the budget, so a new list starts without doubling the load."""
    return max(rate / 2, BUDGET_MIN)


class Budget:
    """One budget (cost per second): polls pass its gate, their requests its pacer, robots.txt a separate gate."""

    def __init__(
        self,
        rate: float,
        *,
        last_start: float = -math.inf,
        may_write: Callable[[], bool] | None = None,
        granted: bool = True,
    ) -> None:
        """`last_start`: last poll start of the previous run (monotonic s); the budget's window spans a restart.

        may_write: see `WritePacer`. granted: whether it may be spent from the start. Must be called inside the running
        event loop.
        """
        self.granted = asyncio.Event()
        """Cleared while nothing may be spent: one of several nodes has no share of their budget."""
        if granted:
            self.granted.set()
        self._may_write = may_write
        self.gate = BudgetGate(rate, last_start=last_start)
        asked = None if may_write is None else self._may_write_now
        self.pacer = WritePacer(rate, last_write=last_start, may_write=asked)
        self.robots_gate = BudgetGate(robots_allowance(rate))
        self.meter = BudgetMeter()

    def _may_write_now(self) -> bool:
        return self.granted.is_set() and (self._may_write is None or self._may_write())

    @property
    def rate(self) -> float:
        """Cost per second that may be spent, 0.01 to 10,000. Setting it raises InvalidValueError out of range."""
        return self.gate.budget

    @rate.setter
    def rate(self, value: float) -> None:
        self.gate.budget = self.pacer.budget = value
        self.robots_gate.budget = robots_allowance(value)

    def most_robots_pending(self) -> int:
        """Returns how many robots.txt requests may wait or be in flight: those that can be sent before the next choice.

        The next choice comes up to a second later if choosing takes long.
        """
        return int(min(max(robots_allowance(self.rate) * _PENDING_SECONDS, _PENDING_LEAST), _PENDING_MOST))
