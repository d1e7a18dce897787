"""Reads what sources say of pages, and gives the index of pages as far as it is believed (docs/signals.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import g
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.whittle.rate_model import grid
from pollerd.allocation.whittle.rate_model.belief import Belief
from pollerd.allocation.whittle.settings import ORDINARY_CLOCK
from pollerd.allocation.whittle.signalled.waiting_index import PagesRead, WaitingIndex

Array = NDArray[np.float64]


class SignalledPages:
    """What sources say of pages, at the rates of the belief about them."""

    def __init__(self, belief: Belief, signals: Signals, objective: str, waiting: WaitingIndex | None) -> None:
        """waiting: the index of what waits to be found; None: that of -ln P(unchanged)."""
        self._belief, self._signals, self.waiting = belief, signals, waiting
        self.freshness = objective == "freshness"
        self._clock = None if objective in ORDINARY_CLOCK else belief.clock.gap

    def read(self, slots: NDArray[np.int64], gap: Array, now: float) -> PagesRead:
        """Reads what sources say of slots int64[k] with sources, gap float64[k] s after their polls."""
        rates, rows = self.rows(slots, gap)
        reading, of = self._signals.read(slots, gap, rates, now, self._clock)
        return PagesRead(now, slots, gap, rates, rows, reading, of)

    def index(self, pages: PagesRead, belief: Array, level: Array, ahead: Array) -> Array:
        """Returns the index float64[k] if signals are believed, `ahead` float64[k] s later.

        belief, level float64[k, K]: with signals, then, if nothing is read until then.
        """
        if self.waiting is not None:
            return self.waiting.index(pages, belief, ahead)
        if self.freshness:
            return np.asarray((belief * g(level) / pages.rates).sum(1))
        return grid.index_of_certainty_equivalent((belief * grid.log_utility(level)).sum(1))

    def rows(self, slots: NDArray[np.int64], gap: Array) -> tuple[Array, Array]:
        """Returns rates float64[k, K], 1/s, and the belief without signals, float64[k, K], of slots int64[k]."""
        belief = self._belief
        rows = belief.predicted_rows(slots, gap).astype(np.float64)
        weight = belief.common_rate.weight
        if weight != 1.0:
            rows = weight * rows + (1.0 - weight) * belief.common_rate.cells
        return belief.rates * belief.factor(slots)[:, None], rows / rows.sum(1, keepdims=True)
