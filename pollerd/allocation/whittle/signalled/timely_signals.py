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
from pollerd.allocation.signals.reading import windows
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.whittle.signalled.waiting_index import PagesRead, ReadingTerms, WaitingIndex
from pollerd.allocation.whittle.timely_index import EARLY, TimelyIndex

Array = NDArray[np.float64]
MARGIN = 0.1
"""Share of its deadline by which a signalled change is looked for before it: a poll that comes late loses it whole."""


class TimelySignals(WaitingIndex):
    """What waits is the number of changes."""

    def __init__(self, timely: TimelyIndex, signals: Signals) -> None:
        self._timely, self._signals = timely, signals

    def index(self, pages: PagesRead, belief: Array, ahead: Array) -> Array:
        if self._timely.has_deadlines:
            return self._by_deadline(pages, belief, ahead)
        waiting = self.waiting(pages)
        number = waiting.unannounced + waiting.announced + pages.rates * ahead[:, None]
        return np.asarray((belief * delay_gain(number, pages.rates, waiting.recall, waiting.precision)).sum(1))

    def waiting(self, pages: PagesRead) -> Pending:
        return pending(pages.of, pages.reading.quiet, pages.rates, pages.gap)

    def _by_deadline(self, pages: PagesRead, belief: Array, ahead: Array) -> Array:
        """Returns the index under `deadline`: changes that are in time, where any is about to be late."""
        deadline = self._timely.deadlines(pages.slots)
        recent = np.minimum(pages.gap, deadline)
        of, _ = windows(self._signals.pairs, self._signals.sources, pages.slots, recent, pages.now)
        waiting = pending(of, pages.rates * recent[:, None], pages.rates, recent)
        announced = (belief * waiting.announced).sum(1)
        unannounced = (belief * (waiting.unannounced + pages.rates * ahead[:, None])).sum(1)
        age = self._signals.pairs.oldest_age(pages.slots, pages.now)
        with np.errstate(divide="ignore", invalid="ignore"):
            in_time = np.where(age > deadline, deadline / age, 1.0)
        share = np.minimum((np.maximum(pages.gap, age) + ahead) / deadline, 1.0)
        signalled = np.where(age + CLOCK_ERROR_S >= (1.0 - MARGIN) * deadline, announced * in_time, 0.0)
        early = EARLY * (unannounced + announced) * share
        due = np.where(pages.gap + CLOCK_ERROR_S >= deadline, unannounced, 0.0)
        return np.asarray(np.maximum(due + signalled, early))

    def until_due(self, slots: NDArray[np.int64], now: float) -> Array:
        """Returns the s until a signalled change of slots int64[k] is nearly late; inf: it is, or there is none."""
        left = (1.0 - MARGIN) * self._timely.deadlines(slots) - self._signals.pairs.oldest_age(slots, now)
        return np.where(np.isfinite(left) & (left > CLOCK_ERROR_S), left, np.inf)

    def fetch_gain(
        self, slots: NDArray[np.int64], waiting: Array, window: tuple[Array, Array], terms: ReadingTerms
    ) -> tuple[Array, Array]:
        rate, weight, price = terms.rate, terms.weight, terms.price
        before = np.maximum(waiting - rate * window[0], 0.0)

        def value(number: Array) -> Array:
            if not self._timely.has_deadlines:
                return delay_waiting_value(number, rate, weight, price)
            return deadline_waiting_value(number, rate, weight, price, self._timely.deadlines(slots))

        quality = (terms.recall, terms.false_rate)
        now, later = (gain_of_reading(before, one, rate, quality, value) for one in window)
        return now, later
