"""The budget of polls per second, applied wherever it is spent: its gate, its meter, and the pace of requests."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator

from asyncio_throttle.throttler import Throttler

from pollerd.daemon.settings import BUDGET_MIN, check_budget
from pollerd.daemon.write_pacer import WritePacer
from pollerd.scheduling.capacity import AttainableRates, HostLoad, reach, totals
from pollerd.scheduling.eligibility import LONG
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.sites import SiteTable

# The budget gate, which lets polls start at even spacing, however busy the event loop is.

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
        self._began, self._lost = time.monotonic(), 0.0
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

    def lost_seconds(self) -> float:
        """Returns for how long since the start the budget was not spent: nobody waited, or the loop turned too late."""
        return self._lost + (0.0 if self._waiting else self._loss(time.monotonic()))

    def _loss(self, now: float) -> float:
        due: float = max(self._due + self.period, self._began)
        return max(now - _TOLERANCE_SECONDS - due, 0.0)

    async def acquire(self, cost: float = 1.0) -> None:
        """Waits for permission to start a poll that costs `cost` of the budget."""
        self._waiting += 1
        try:
            await self._turn_comes()
        finally:
            self._waiting -= 1
        await super().acquire()  # type: ignore[no-untyped-call]
        now = self._task_logs.pop()
        self._lost += self._loss(now)
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


# The budget meter: the budget spent over the last minute, and the time of the last start.

_WINDOW_SECONDS = 60


class BudgetMeter:
    """Sums the cost of started polls by second, on the monotonic clock."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._seconds: deque[list[float]] = deque()
        self._last_start = self._began
        self._last_idle = self._began
        self._nothing_due, self._nothing_due_since, self._idle = False, 0.0, 0.0
        self.started = 0

    def note_start(self, cost: float) -> None:
        """Counts the start of a poll of this cost."""
        now = time.monotonic()
        self._last_start = now
        self.started += 1
        second = float(int(now))
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += cost
        else:
            self._seconds.append([second, cost])
            self._drop_old(now)

    @contextlib.contextmanager
    def idle(self, nothing_due: bool) -> Iterator[None]:
        """Marks a wait; if nothing is due, it does not count as a stall."""
        self._nothing_due, self._nothing_due_since = nothing_due, time.monotonic()
        try:
            yield
        finally:
            if nothing_due:
                self._last_idle = time.monotonic()
                self._idle += self._last_idle - self._nothing_due_since
            self._nothing_due = False

    def idle_seconds(self) -> float:
        """Returns for how long since the start nothing was due."""
        return self._idle + (time.monotonic() - self._nothing_due_since if self._nothing_due else 0.0)

    def rate(self) -> float:
        """Returns the cost per second over the last minute (or since the start, if that is shorter)."""
        now = time.monotonic()
        self._drop_old(now)
        span = min(now - self._began, _WINDOW_SECONDS)
        return sum(cost for _, cost in self._seconds) / max(span, 1.0)

    def dispatch_age(self) -> float:
        """Returns the seconds since a poll last started while sites were due; 0 while none are."""
        if self._nothing_due:
            return 0.0
        return max(0.0, time.monotonic() - max(self._last_start, self._last_idle))

    def _drop_old(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] < now - _WINDOW_SECONDS:
            self._seconds.popleft()


_PENDING_LEAST, _PENDING_MOST, _PENDING_SECONDS = 64, 1_000, 1.5


def robots_allowance(rate: float) -> float:
    """Returns the robots.txt requests per second: half the budget, so a new list starts without doubling the load."""
    return max(rate / 2, BUDGET_MIN)


def _most_pending(rate: float) -> int:
    """Returns how many robots.txt requests can be sent before the next choice, which can take a second."""
    return int(min(max(robots_allowance(rate) * _PENDING_SECONDS, _PENDING_LEAST), _PENDING_MOST))


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
        self._rate = rate
        self.most_robots_pending = _most_pending(rate)
        """How many robots.txt requests can wait or be in flight: those that can be sent before the next choice."""

    def _may_write_now(self) -> bool:
        return self.granted.is_set() and (self._may_write is None or self._may_write())

    @property
    def rate(self) -> float:
        """Cost per second that may be spent, 0.01 to 10,000. Setting it raises InvalidValueError out of range."""
        return self._rate

    @rate.setter
    def rate(self, value: float) -> None:
        self.gate.budget = self.pacer.budget = value
        self.robots_gate.budget = robots_allowance(value)
        self._rate, self.most_robots_pending = value, _most_pending(value)


# How much of the budget can be spent within the sites' intervals and politeness.

_NOTICEABLE_GROWTH = 0.1


class BudgetFit:
    """Compares the budget with the attainable rates, and passes the spendable part to the allocator."""

    def __init__(
        self, *, sites: SiteTable, hosts: HostTable, budget: float, send_budget: Callable[[float], None]
    ) -> None:
        """`send_budget`: called with the cost per second that the allocator is to use."""
        self._sites, self._hosts, self._send = sites, hosts, send_budget
        self.budget = budget
        """The user's budget, cost per second."""
        self._fitted_sites = 0
        self._crowding: HostLoad | None = None
        self._being_fitted = asyncio.Lock()

    def has_grown(self) -> bool:
        """Returns whether the number of sites has grown noticeably since the budget was last fitted."""
        return len(self._sites) > (1 + _NOTICEABLE_GROWTH) * self._fitted_sites

    def spendable(self, budget: float) -> float:
        """Returns how much of a budget (cost per second) min_intervals, min_yields and politeness allow to be spent."""
        return min(budget, self.crowding().total)

    def allocator_budget(self, budget: float) -> float:
        """Returns the part of a budget (cost per second) for an allocator: what min_intervals and politeness allow.

        Ignores the limits of its own beliefs (min_yields): rates are believed on the scale of the gaps that the budget
        produces, so longer gaps would change the beliefs by themselves, which would never converge.
        """
        return min(budget, self.reach(whatever_is_believed=True).total)

    def crowding(self) -> HostLoad:
        """Returns the total that can be spent, and how hosts delay their sites.

        For more than 65,536 sites the value is from the last fit, every 15 s, since computing it scans all sites.
        """
        if self._crowding is None or self._sites.size <= LONG:
            reached = self.reach()
            self._crowding = HostLoad(reached.total, reached.by_host)
        return self._crowding

    def reach(self, *, whatever_is_believed: bool = False) -> AttainableRates:
        """Returns how often each live site can be polled, whatever the budget."""
        return reach(self._sites, self._hosts, self._hosts.settings, whatever_is_believed=whatever_is_believed)

    def fit(self, budget: float | None = None) -> None:
        """Sets a new budget, if one is given, and passes the spendable part to the allocator."""
        self.budget = self.budget if budget is None else budget
        self._fitted_sites = len(self._sites)
        if self._sites.size > LONG:
            for _ in self._fitting():
                pass
            return
        reach = self.reach()
        self._crowding = HostLoad(reach.total, reach.by_host)
        self._send(self.budget if reach.total >= self.budget else self.allocator_budget(self.budget))

    async def fit_in_steps(self) -> None:
        """Runs `fit`; for a long list the loop runs meanwhile, and concurrent callers wait."""
        if self._sites.size <= LONG:
            self.fit()
            return
        async with self._being_fitted:
            self._fitted_sites = len(self._sites)
            for _ in self._fitting():
                await asyncio.sleep(0)

    def _fitting(self) -> Iterator[None]:
        """Runs `fit` of a long list, piece by piece."""
        sums = yield from totals(self._sites, self._hosts, self._hosts.settings)
        reached = sums.total
        if reached < self.budget:
            wider = yield from totals(self._sites, self._hosts, self._hosts.settings, whatever_is_believed=True)
            reached = wider.total
        self._crowding = sums
        self._send(min(self.budget, reached))
