"""What the polls of pages with signal sources found in the last hour, and what that would cost without signals."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Sized

import numpy as np
from numpy.typing import NDArray

from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.daemon.state.views import SignalYieldView
from pollerd.telemetry import Instruments

SPAN_SECONDS = 3600.0
_STEP_SECONDS = 60.0
_EXPECTED, _POLLS, _FOUND, _AFTER_SIGNAL, _FOUND_AFTER_SIGNAL = range(5)


class SignalYield:
    """Sums over the last hour, by minute. Nothing is noted without signal sources.

    A minute holds float64[5]: the expected value of all polls, polls of pages with sources and what they found, and
    the same of polls that followed a signal.
    """

    def __init__(self, *, sources: Sized, scheduler: SchedulerState, instruments: Instruments) -> None:
        """sources: as many as there are signal sources."""
        self._sources, self._scheduler, self._instruments = sources, scheduler, instruments
        self._minutes: deque[tuple[float, NDArray[np.float64]]] = deque()

    def note(
        self, slots: NDArray[np.int64], predicted: NDArray[np.float64], changed: NDArray[np.bool_], now: float
    ) -> None:
        """Counts polls of slots int64[k] at `now`, epoch s, before the allocator learns from them.

        predicted float64[k]: probability that they find a change, nan: not known; changed bool[k].
        """
        if not len(self._sources):
            return
        waiting = self._scheduler.allocator.signals_waiting(slots)
        of_source = ~np.isnan(waiting)
        after = of_source & (waiting > 0)
        value = predicted * self._scheduler.sites.weight[slots]
        sums = np.array([np.nansum(value), of_source.sum(), (of_source & changed).sum(), after.sum(), 0.0])
        sums[_FOUND_AFTER_SIGNAL] = (after & changed).sum()
        if not self._minutes or now - self._minutes[-1][0] >= _STEP_SECONDS:
            self._minutes.append((now, np.zeros(5)))
        self._minutes[-1][1][:] += sums
        self._drop(now)
        for signalled, some in (("yes", after), ("no", of_source & ~after)):
            for found, those in (("yes", some & changed), ("no", some & ~changed)):
                self._instruments.signalled_polls[signalled, found].inc(int(those.sum()))

    def view(self, curve: Sequence[tuple[float, float]], now: float) -> SignalYieldView | None:
        """Returns the sums; None without signal sources.

        curve: (budget, value per s) of the best split without signals, by budget; empty: not known.
        """
        if not len(self._sources):
            return None
        self._drop(now)
        sums = np.sum([minute for _, minute in self._minutes], axis=0) if self._minutes else np.zeros(5)
        span = now - self._minutes[0][0] if self._minutes else 0.0
        expected = float(sums[_EXPECTED]) / span if span >= _STEP_SECONDS else None
        return SignalYieldView(
            sources=len(self._sources),
            polls=int(sums[_POLLS]),
            found=int(sums[_FOUND]),
            polls_after_signal=int(sums[_AFTER_SIGNAL]),
            found_after_signal=int(sums[_FOUND_AFTER_SIGNAL]),
            budget_saved=None if expected is None else saved_share(expected, self._scheduler.budget, curve),
        )

    def _drop(self, now: float) -> None:
        while self._minutes and now - self._minutes[0][0] > SPAN_SECONDS:
            self._minutes.popleft()


def saved_share(value: float, budget: float, curve: Sequence[tuple[float, float]]) -> float | None:
    """Returns the share of the budget that signals save, 0 to 1: 1 - budget / the one that finds `value` without them.

    value: per s, found with signals; curve: (budget, value per s) without, by budget. Beyond its end the last budget
    counts: the share is then a lower bound. None for an empty curve.
    """
    if not curve:
        return None
    budgets, values = np.array(curve).T
    rising = np.concatenate([[True], np.diff(np.maximum.accumulate(values)) > 0])
    needed = float(np.interp(value, values[rising], budgets[rising]))
    return max(1.0 - budget / needed, 0.0)
