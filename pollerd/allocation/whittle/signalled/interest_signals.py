"""The index of pages with sources under `interest`, and of the sources that are polled (docs/signals.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import decay_rates
from pollerd.allocation.signals.item_value import covered_shares, gain_of_reading_items, item_gain
from pollerd.allocation.signals.pending import Pending, pending_of
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.slots.slot_table import SlotTable
from pollerd.allocation.whittle.signalled.waiting_index import PagesRead, ReadingTerms, WaitingIndex

Array = NDArray[np.float64]


class InterestSignals(WaitingIndex):
    """What waits is the value of the items."""

    def __init__(self, slot_table: SlotTable, signals: Signals) -> None:
        self._slot_table, self._signals = slot_table, signals

    def decay(self, slots: NDArray[np.int64]) -> Array:
        """Returns the decay rate of news of slots int64[k], 1/s, float64[k]."""
        return decay_rates(self._slot_table.half_life[slots])

    def index(self, pages: PagesRead, belief: Array, ahead: Array) -> Array:
        waiting, decay = self.waiting(pages), self.decay(pages.slots)[:, None]
        value = waiting.unannounced + waiting.announced + pages.rates * ahead[:, None]
        return np.asarray((belief * item_gain(value, pages.rates, decay, waiting.recall, waiting.precision)).sum(1))

    def waiting(self, pages: PagesRead) -> Pending:
        decay = self.decay(pages.slots)
        unseen = pages.rates * (-np.expm1(-decay * pages.gap) / decay)[:, None]
        worth = self._signals.pairs.worth(pages.slots, decay, pages.now)
        return pending_of(pages.of, unseen, pages.rates, covered_shares(pages.of, pages.gap, decay), worth)

    def fetch_gain(
        self, slots: NDArray[np.int64], waiting: Array, window: tuple[Array, Array], terms: ReadingTerms
    ) -> tuple[Array, Array]:
        decay, quality = self.decay(slots), (terms.recall, terms.false_rate)
        fresh = terms.rate / decay * -np.expm1(-decay * window[0])
        before = np.maximum((waiting - fresh) * np.exp(decay * window[0]), 0.0)
        now, later = (
            gain_of_reading_items(before, one, terms.rate, decay, quality, terms.weight, terms.price) for one in window
        )
        return now, later
