"""Reads what sources say of pages, and gives the index of pages as far as it is believed (docs/signals.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import g
from pollerd.allocation.signals.reading import SignalReading, Window
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.whittle.rate_model import grid
from pollerd.allocation.whittle.rate_model.belief import Belief
from pollerd.allocation.whittle.settings import ORDINARY_CLOCK
from pollerd.allocation.whittle.signalled.interest_signals import InterestSignals
from pollerd.allocation.whittle.signalled.timely_signals import TimelySignals

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PagesRead:
    """Pages that sources speak for, at one moment: k pages, K rates.

    slots int64[k] · gap float64[k], s · rates float64[k, K], 1/s · rows float64[k, K]: the belief without signals ·
    reading, of: what `Signals.read` returns of them.
    """

    slots: NDArray[np.int64]
    gap: Array
    rates: Array
    rows: Array
    reading: SignalReading
    of: list[Window]

    def take(self, places: NDArray[np.int64]) -> PagesRead:
        """Selects pages, in the given order, and the windows of their sources."""
        reading, windows = self.reading.take(places), (window.take(places) for window in self.of)
        of = [window for window in windows if window.recall.any()]
        return PagesRead(self.slots[places], self.gap[places], self.rates[places], self.rows[places], reading, of)


class SignalledPages:
    """What sources say of pages, at the rates of the belief about them."""

    def __init__(
        self, belief: Belief, signals: Signals, objective: str, waiting: TimelySignals | InterestSignals | None
    ) -> None:
        """waiting: the index of what waits to be found; None: that of -ln P(unchanged)."""
        self._belief, self._signals, self.waiting = belief, signals, waiting
        self.freshness = objective == "freshness"
        self._clock = None if objective in ORDINARY_CLOCK else belief.clock.gap

    def read(self, slots: NDArray[np.int64], gap: Array, now: float) -> PagesRead:
        """Reads what sources say of slots int64[k] with sources, gap float64[k] s after their polls."""
        rates, rows = self.rows(slots, gap)
        reading, of = self._signals.read(slots, gap, rates, now, self._clock)
        return PagesRead(slots, gap, rates, rows, reading, of)

    def index(self, told: PagesRead, belief: Array, level: Array, ahead: Array, now: float) -> Array:
        """Returns the index float64[k] if signals are believed, `ahead` float64[k] s later.

        belief, level float64[k, K]: with signals, then, if nothing is read until then.
        """
        if self.waiting is not None:
            read = told.reading, told.of
            return self.waiting.index(told.slots, told.gap, now, read, told.rates, belief, ahead)
        return self._expected(belief, level, told.rates)

    def rows(self, slots: NDArray[np.int64], gap: Array) -> tuple[Array, Array]:
        """Returns rates float64[k, K], 1/s, and the belief without signals, float64[k, K], of slots int64[k]."""
        belief = self._belief
        rows = belief.predicted_rows(slots, gap).astype(np.float64)
        weight = belief.common_rate.weight
        if weight != 1.0:
            rows = weight * rows + (1.0 - weight) * belief.common_rate.cells
        return belief.rates * belief.factor(slots)[:, None], rows / rows.sum(1, keepdims=True)

    def _expected(self, rows: Array, level: Array, rates: Array) -> Array:
        if self.freshness:
            return np.asarray((rows * g(level) / rates).sum(1))
        return grid.index_of_certainty_equivalent((rows * grid.log_utility(level)).sum(1))
