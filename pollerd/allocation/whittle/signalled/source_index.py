"""The index of sources that have to be polled: what it is worth to read one now."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.signals.formulas import due_level, fetch_gain
from pollerd.allocation.signals.reading import informed
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.slots.since import Since
from pollerd.allocation.slots.slot_table import SlotTable
from pollerd.allocation.whittle.rate_model.belief import Belief
from pollerd.allocation.whittle.signalled.signalled_pages import SignalledPages
from pollerd.allocation.whittle.signalled.waiting_index import PagesRead, ReadingTerms

Array = NDArray[np.float64]
_PRICE_QUANTILE, _PRICE_STEP = 0.2, 0.03
"""The price of a poll is this quantile of the indices polled, followed by this step: their mean is too high just after
a source was read."""
_REFRESH_POLLS = 16.0
_REFRESH_CYCLES = 1 / 64
"""A source's index is computed anew after as many polls of the budget, and after this part of a uniform cycle."""
_PAGES_AT_ONCE, _PAGES_A_CHOICE = 4_096, 1_024
"""Of a source with more pages than the first only so many tell its index; in one choice indices of sources are computed
until they took as many pages as the second."""
_SLOPE_STEP = 0.05
"""Share of the time since a source was read by which the slope of its gain is taken."""
_FIRST_FETCHES = 3.0
"""Unproven sources are read as often in their first uniform cycle."""
FIRST_FETCH = 1e11
"""Index of a source that is due for one of its first readings: above all pages, below starved ones."""


class SourceIndex:
    """Indices of polled sources, computed some at a time, and the marginal price of a poll."""

    def __init__(self, pages: SignalledPages, belief: Belief, slot_table: SlotTable, signals: Signals) -> None:
        self._pages, self._belief, self._slot_table, self._signals = pages, belief, slot_table, signals
        self.price = 0.0
        """Marginal index of a poll; 0: not known yet."""
        self._values: dict[int, tuple[float, float]] = {}
        """Index of each polled source, and when it was computed, epoch s."""

    def note_price(self, indices: Array) -> None:
        """Follows the marginal price by the indices float64[k] of the pages just polled."""
        for value in indices[(indices > 0) & (indices < FIRST_FETCH)].tolist():
            up = _PRICE_QUANTILE - (value < self.price)
            self.price = self.price * math.exp(_PRICE_STEP * up) if self.price else value

    def polled_slots(self) -> NDArray[np.int64]:
        """Returns the slots whose polls read a source, int64[m]."""
        return np.array([s.polled_as for s in self._signals.sources.values() if s.polled_as >= 0], np.int64)

    def refresh(self, elapsed: Array | Since, now: float) -> None:
        """Computes the indices of sources that are due, given the gaps float64[n] s of all slots."""
        often = self._belief.cycle * min(_REFRESH_POLLS / max(self._slot_table.size, 1), _REFRESH_CYCLES)
        left = _PAGES_A_CHOICE
        waiting = sorted(
            (self._values.get(i, (0.0, -math.inf))[1], i) for i, s in self._signals.sources.items() if s.polled_as >= 0
        )
        for computed, source in waiting:
            if now - computed < often or left <= 0:
                break
            left -= min(len(self._signals.sources[source].slots), _PAGES_AT_ONCE)
            self._values[source] = self._source_value(source, elapsed, now), now

    def readings_due(self) -> NDArray[np.int64]:
        """Returns the slots at which sources are read whose index is at least the marginal price, int64[m].

        Before there is a price: those that are due for one of their first readings.
        """
        least = self.price or FIRST_FETCH
        due = {self._signals.sources[source].polled_as for source, (index, _) in self._values.items() if index >= least}
        return np.array(sorted(slot for slot in due if slot >= 0), np.int64)

    def raise_sources(self, slots: NDArray[np.int64], value: Array) -> Array:
        """Returns urgencies float64[k] of slots int64[k], raised to the index of the sources that are read there."""
        if not self._values:
            return value
        sources = self._signals.sources
        at = np.array([sources[source].polled_as for source in self._values])
        index = np.array([index for index, _ in self._values.values()])
        order = np.lexsort((index, at))  # of several sources of one slot the last has the largest index
        at, index = at[order], index[order]
        place = np.searchsorted(at, slots, side="right") - 1
        here = np.flatnonzero((place >= 0) & (at[place] == slots))
        out = value.copy()
        out[here] = np.maximum(value[here], index[place[here]])
        return out

    def _source_value(self, source: int, elapsed: Array | Since, now: float) -> float:
        """Returns the index of a polled source: its expected gain less its growth, per cost."""
        of = self._signals.sources[source]
        since = max(now - of.fetched_at, 1e-9)
        if of.fetches < _FIRST_FETCHES and since > self._belief.cycle / _FIRST_FETCHES:
            return FIRST_FETCH
        # No page is worth more than its poll: a few thousand of them tell what all are worth.
        every = -(-len(of.slots) // _PAGES_AT_ONCE) or 1
        some = of.slots[int(of.fetches) % every :: every]
        known = some[np.isfinite(elapsed[some])]
        if not self.price or not known.size or not np.isfinite(since):
            return 0.0
        gap = self._belief.clock.gap(elapsed[known], now)
        rates, rows = self._pages.rows(known, gap)
        reading, of_each = self._signals.read(known, gap, rates, now, self._belief.clock.gap)
        pages = PagesRead(now, known, gap, rates, rows, reading, of_each)
        belief = informed(rows, reading)
        rate = (belief * rates).sum(1)
        window = np.minimum(since, gap)
        later = window + np.where(gap > since, _SLOPE_STEP * since, 0.0)
        table = self._slot_table
        price = self.price * table.cost[known]
        if (waiting := self._pages.waiting) is not None:
            terms = ReadingTerms(rate, of.recall, of.false_rate, table.weight[known], price)
            now_gain, then_gain = waiting.fetch_gain(known, waiting.expected(pages, belief), (window, later), terms)
        else:
            unchanged = (belief * np.exp(-reading.level)).sum(1)
            value = table.weight[known] / (rate if self._pages.freshness else 1.0)
            due = due_level(price / np.maximum(value, 1e-300))
            before = np.minimum(unchanged * np.exp(rate * window), 1.0)
            now_gain, then_gain = (
                float(fetch_gain(before, one, rate, of.recall, of.false_rate, due, value).sum())
                for one in (window, later)
            )
        gain = (now_gain - (then_gain - now_gain) / _SLOPE_STEP) * len(of.slots) / len(some)
        return float(max(of.say * gain / table.cost[of.polled_as], 0.0))

    def forget(self, source: int) -> None:
        """Forgets what was computed for a source."""
        self._values.pop(source, None)
