"""Applies the budget of polls per second wherever it is spent."""

from __future__ import annotations

import math

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

    def __init__(self, rate: float, *, last_start: float = -math.inf) -> None:
        """`last_start`: last poll start of the previous run (monotonic s); the budget's window spans a restart.

        Must be called inside the running event loop.
        """
        self.gate = BudgetGate(rate, last_start=last_start)
        self.pacer = WritePacer(rate, last_write=last_start)
        self.robots_gate = BudgetGate(robots_allowance(rate))
        self.meter = BudgetMeter()

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
