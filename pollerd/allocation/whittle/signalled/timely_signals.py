"""The index of pages with sources under `delay` and `deadline`, and of the sources that are polled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.objectives.timeliness import CLOCK_ERROR_S
from pollerd.allocation.signals.pending import (
    Pending,
    deadline_waiting_value,
    delay_gain,
    delay_waiting_value,
    gain_of_reading,
    pending,
)
from pollerd.allocation.signals.reading import SignalReading, Window, windows
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.whittle.timely_index import EARLY, TimelyIndex

Array = NDArray[np.float64]
MARGIN = 0.1
"""Share of its deadline by which a signalled change is looked for before it: a poll that comes late loses it whole."""


class TimelySignals:
    """Indices for weight and cost 1 of pages that sources speak for."""

    def __init__(self, timely: TimelyIndex, signals: Signals) -> None:
        self._timely, self._signals = timely, signals

    def index(
        self,
        slots: NDArray[np.int64],
        gap: Array,
        now: float,
        read: tuple[SignalReading, list[Window]],
        rates: Array,
        rows: Array,
        ahead: Array,
    ) -> Array:
        """Returns the index of slots int64[k] with sources, `ahead` float64[k] s later, float64[k].

        gap float64[k]: s since their polls now; read: of `Signals`, now; rates float64[k, K]; rows float64[k, K]:
        belief with signals, then. Until then nothing is read, nothing jumps (`until_due`).
        """
        reading, of = read
        if self._timely.has_deadlines:
            return self._by_deadline(slots, gap, now, rates, rows, ahead)
        waiting = pending(of, reading.quiet, rates, gap)
        number = waiting.unannounced + waiting.announced + rates * ahead[:, None]
        return np.asarray((rows * delay_gain(number, rates, waiting.recall, waiting.precision)).sum(1))

    def _by_deadline(
        self, slots: NDArray[np.int64], gap: Array, now: float, rates: Array, rows: Array, ahead: Array
    ) -> Array:
        """Returns the index under `deadline`: changes that are in time, where any is about to be late."""
        deadline = self._timely.deadlines(slots)
        recent = np.minimum(gap, deadline)
        of, _ = windows(self._signals.pairs, self._signals.sources, slots, recent, now)
        waiting = pending(of, rates * recent[:, None], rates, recent)
        announced = (rows * waiting.announced).sum(1)
        unannounced = (rows * (waiting.unannounced + rates * ahead[:, None])).sum(1)
        age = self._signals.pairs.oldest_age(slots, now)
        with np.errstate(divide="ignore", invalid="ignore"):
            in_time = np.where(age > deadline, deadline / age, 1.0)
        share = np.minimum((np.maximum(gap, age) + ahead) / deadline, 1.0)
        signalled = np.where(age + CLOCK_ERROR_S >= (1.0 - MARGIN) * deadline, announced * in_time, 0.0)
        early = EARLY * (unannounced + announced) * share
        due = np.where(gap + CLOCK_ERROR_S >= deadline, unannounced, 0.0)
        return np.asarray(np.maximum(due + signalled, early))

    def until_due(self, slots: NDArray[np.int64], now: float) -> Array:
        """Returns the s until a signalled change of slots int64[k] is nearly late; inf: it is, or there is none."""
        left = (1.0 - MARGIN) * self._timely.deadlines(slots) - self._signals.pairs.oldest_age(slots, now)
        return np.where(np.isfinite(left) & (left > CLOCK_ERROR_S), left, np.inf)

    def expected(
        self,
        _slots: NDArray[np.int64],
        _now: float,
        read: tuple[SignalReading, list[Window]],
        gap: Array,
        rates: Array,
        rows: Array,
    ) -> Array:
        """Returns the expected number of waiting changes of k pages, float64[k]; rows: the belief with signals."""
        waiting: Pending = pending(read[1], read[0].quiet, rates, gap)
        return np.asarray((rows * (waiting.unannounced + waiting.announced)).sum(1))

    def fetch_gain(
        self,
        slots: NDArray[np.int64],
        number: Array,
        window: tuple[Array, Array],
        rate: Array,
        quality: tuple[float, float],
        weight: Array,
        price: Array,
    ) -> tuple[float, float]:
        """Returns the gains of reading a source now and a little later, summed over its pages of slots int64[k].

        number: of waiting changes now; window: s since the last information, now and later; price: θ C of a page's
        poll.
        """
        before = np.maximum(number - rate * window[0], 0.0)

        def value(waiting: Array) -> Array:
            if not self._timely.has_deadlines:
                return delay_waiting_value(waiting, rate, weight, price)
            return deadline_waiting_value(waiting, rate, weight, price, self._timely.deadlines(slots))

        now, later = (float(gain_of_reading(before, one, rate, quality, value).sum()) for one in window)
        return now, later
