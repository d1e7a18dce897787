"""The index of pages with sources under `interest`, and of the sources that are polled (docs/signals.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import decay_rates
from pollerd.allocation.signals.item_value import covered_shares, gain_of_reading_items, item_gain
from pollerd.allocation.signals.pending import Pending, pending_of
from pollerd.allocation.signals.reading import SignalReading, Window
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.slots.slot_table import SlotTable

Array = NDArray[np.float64]


class InterestSignals:
    """Indices for weight and cost 1 of pages that sources speak for."""

    def __init__(self, slot_table: SlotTable, signals: Signals) -> None:
        self._slot_table, self._signals = slot_table, signals

    def decay(self, slots: NDArray[np.int64]) -> Array:
        """Returns the decay rate of news of slots int64[k], 1/s, float64[k]."""
        return decay_rates(self._slot_table.half_life[slots])

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
        belief with signals, then. Until then nothing is read.
        """
        decay = self.decay(slots)
        waiting = self._waiting(slots, gap, now, read[1], rates, self._unseen(rates, gap, decay))
        value = waiting.unannounced + waiting.announced + rates * ahead[:, None]
        return np.asarray((rows * item_gain(value, rates, decay[:, None], waiting.recall, waiting.precision)).sum(1))

    def until_due(self, slots: NDArray[np.int64], _now: float) -> Array:
        """Returns inf float64[k]: no index jumps without a signal."""
        return np.full(len(slots), np.inf)

    def expected(
        self,
        slots: NDArray[np.int64],
        now: float,
        read: tuple[SignalReading, list[Window]],
        gap: Array,
        rates: Array,
        rows: Array,
    ) -> Array:
        """Returns the expected value of the items that wait, for weight 1, float64[k]; rows: belief with signals."""
        whole = self._unseen(rates, gap, self.decay(slots))
        waiting = self._waiting(slots, gap, now, read[1], rates, whole)
        return np.asarray((rows * (waiting.unannounced + waiting.announced)).sum(1))

    def fetch_gain(
        self,
        slots: NDArray[np.int64],
        value: Array,
        window: tuple[Array, Array],
        rate: Array,
        quality: tuple[float, float],
        weight: Array,
        price: Array,
    ) -> tuple[float, float]:
        """Returns the gains of reading a source now and a little later, summed over its pages of slots int64[k].

        value: of waiting items now, for weight 1; window: s since the last information, now and later; price: θ C of a
        page's poll.
        """
        decay = self.decay(slots)
        before = np.maximum((value - rate / decay * -np.expm1(-decay * window[0])) * np.exp(decay * window[0]), 0.0)
        now, later = (
            float(gain_of_reading_items(before, one, rate, decay, quality, weight, price).sum()) for one in window
        )
        return now, later

    def _unseen(self, rates: Array, gap: Array, decay: Array) -> Array:
        """Returns the value of all items since the last polls, for known rates, float64[k, K]."""
        return np.asarray(rates * (-np.expm1(-decay * gap) / decay)[:, None])

    def _waiting(
        self, slots: NDArray[np.int64], gap: Array, now: float, of: list[Window], rates: Array, whole: Array
    ) -> Pending:
        decay = self.decay(slots)
        worth = self._signals.pairs.worth(slots, decay, now)
        return pending_of(of, whole, rates, covered_shares(of, gap, decay), worth)
