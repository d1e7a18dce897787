"""The index of sources that have to be polled: what it is worth to read one now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.signals.formulas import due_level, fetch_gain
from pollerd.allocation.signals.quality import LearnedSource
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
_SOURCES_A_CHOICE = 256
"""Indices of so many sources at most are computed in one choice, however few pages they have."""
_SLOPE_STEP = 0.05
"""Share of the time since a source was read by which the slope of its gain is taken."""
_FIRST_FETCHES = 3.0
"""Unproven sources are read as often in their first uniform cycle."""
FIRST_FETCH = 1e11
"""Index of a source that is due for one of its first readings: above all pages, below starved ones."""


@dataclass(frozen=True, slots=True)
class _PolledSources:
    """The m sources that have to be polled, by the slots whose polls read them, of which there are n.

    numbers, slots int64[m]: of sources, and where they are read, ascending · first int64[n]: places among the m where
    another slot begins · index float64[m], -inf: not computed · computed_at float64[m], epoch s, -inf: not yet.
    """

    numbers: NDArray[np.int64]
    slots: NDArray[np.int64]
    first: NDArray[np.int64]
    index: Array
    computed_at: Array

    @staticmethod
    def of(sources: Mapping[int, LearnedSource], before: _PolledSources | None) -> _PolledSources:
        """Returns those of the sources that are polled, with what was computed before."""
        pairs = sorted((of.polled_as, number) for number, of in sources.items() if of.polled_as >= 0)
        slots, numbers = np.array(pairs, np.int64).reshape(-1, 2).T
        index, computed_at = np.full((2, len(numbers)), -np.inf)
        if before is not None:
            _, new, old = np.intersect1d(numbers, before.numbers, assume_unique=True, return_indices=True)
            index[new], computed_at[new] = before.index[old], before.computed_at[old]
        return _PolledSources(numbers, slots, np.flatnonzero(np.diff(slots, prepend=-1)), index, computed_at)

    def best(self) -> tuple[NDArray[np.int64], Array]:
        """Returns the slots whose polls read sources, int64[n], ascending, and the largest index of each."""
        if not len(self.first):
            return self.slots, self.index
        return self.slots[self.first], np.maximum.reduceat(self.index, self.first)


class SourceIndex:
    """Indices of polled sources, computed some at a time, and the marginal price of a poll."""

    def __init__(self, pages: SignalledPages, belief: Belief, slot_table: SlotTable, signals: Signals) -> None:
        self._pages, self._belief, self._slot_table, self._signals = pages, belief, slot_table, signals
        self.price = 0.0
        """Marginal index of a poll; 0: not known yet."""
        self._known = _PolledSources.of({}, None)
        self._version = signals.version

    def note_price(self, indices: Array) -> None:
        """Follows the marginal price by the indices float64[k] of the pages just polled."""
        for value in indices[(indices > 0) & (indices < FIRST_FETCH)].tolist():
            up = _PRICE_QUANTILE - (value < self.price)
            self.price = self.price * math.exp(_PRICE_STEP * up) if self.price else value

    def polled_slots(self) -> NDArray[np.int64]:
        """Returns the slots whose polls read a source, int64[m], with repeats."""
        return self._polled().slots

    def slots_from(self, level: float) -> NDArray[np.int64]:
        """Returns the slots whose polls read a source with an index of at least `level`, int64[m]; nan: any."""
        slots, index = self._polled().best()
        return slots[~(index < level)]

    def refresh(self, elapsed: Array | Since, now: float) -> None:
        """Computes the indices of sources that are due, given the gaps float64[n] s of all slots."""
        polled = self._polled()
        often = self._belief.cycle * min(_REFRESH_POLLS / max(self._slot_table.size, 1), _REFRESH_CYCLES)
        due = np.flatnonzero(now - polled.computed_at >= often)
        if len(due) > _SOURCES_A_CHOICE:
            due = due[np.argpartition(polled.computed_at[due], _SOURCES_A_CHOICE)[:_SOURCES_A_CHOICE]]
        due = due[np.lexsort((polled.numbers[due], polled.computed_at[due]))]
        pages = [min(len(self._signals.sources[i].slots), _PAGES_AT_ONCE) for i in polled.numbers[due].tolist()]
        due = due[np.cumsum(pages) - pages < _PAGES_A_CHOICE]
        if due.size:
            polled.index[due] = self._values(
                [self._signals.sources[i] for i in polled.numbers[due].tolist()], elapsed, now
            )
            polled.computed_at[due] = now

    def readings_due(self) -> NDArray[np.int64]:
        """Returns the slots at which sources are read whose index is at least the marginal price, int64[m].

        Before there is a price: those that are due for one of their first readings.
        """
        slots, index = self._polled().best()
        return slots[index >= (self.price or FIRST_FETCH)]

    def raise_sources(self, slots: NDArray[np.int64], value: Array) -> Array:
        """Returns urgencies float64[k] of slots int64[k], raised to the index of the sources that are read there."""
        at, index = self._polled().best()
        if not at.size:
            return value
        place = np.searchsorted(at, slots, side="right") - 1
        here = np.flatnonzero((place >= 0) & (at[place] == slots))
        out = value.copy()
        out[here] = np.maximum(value[here], index[place[here]])
        return out

    def _polled(self) -> _PolledSources:
        """Returns the sources that have to be polled as they are now."""
        if self._version != self._signals.version:
            self._known = _PolledSources.of(self._signals.sources, self._known)
            self._version = self._signals.version
        return self._known

    def _values(self, sources: list[LearnedSource], elapsed: Array | Since, now: float) -> Array:
        """Returns the indices float64[m] of polled sources: their expected gain less its growth, per cost."""
        since = np.maximum(now - np.array([of.fetched_at for of in sources]), 1e-9)
        fetches = np.array([of.fetches for of in sources])
        first = (fetches < _FIRST_FETCHES) & (since > self._belief.cycle / _FIRST_FETCHES)
        out = np.where(first, FIRST_FETCH, 0.0)
        if not self.price:
            return out
        # No page is worth more than its poll: a few thousand of them tell what all are worth.
        every = [-(-len(of.slots) // _PAGES_AT_ONCE) or 1 for of in sources]
        some = [of.slots[int(of.fetches) % step :: step] for of, step in zip(sources, every, strict=True)]
        slots, place = np.concatenate(some), np.repeat(np.arange(len(sources)), [len(one) for one in some])
        good = np.isfinite(elapsed[slots]) & np.isfinite(since[place]) & ~first[place]
        slots, place = slots[good], place[good]
        if not slots.size:
            return out
        now_gain, then_gain = self._gains(slots, place, sources, since[place], elapsed, now)
        growth = (then_gain - now_gain) / _SLOPE_STEP
        gain = np.bincount(place, now_gain - growth, len(sources))
        share = np.array([len(of.slots) / max(len(one), 1) for of, one in zip(sources, some, strict=True)])
        say = np.array([of.say for of in sources])
        cost = self._slot_table.cost[[of.polled_as for of in sources]]
        return np.where(first, FIRST_FETCH, np.maximum(say * gain * share / cost, 0.0))

    def _gains(
        self,
        slots: NDArray[np.int64],
        place: NDArray[np.int64],
        sources: list[LearnedSource],
        since: Array,
        elapsed: Array | Since,
        now: float,
    ) -> tuple[Array, Array]:
        """Returns what pages of slots int64[k] gain if their sources are read now and a little later, float64[k] each.

        place int64[k]: the source of each; since float64[k]: s since that was read.
        """
        gap = self._belief.clock.gap(elapsed[slots], now)
        rates, rows = self._pages.rows(slots, gap)
        reading, of_each = self._signals.read(slots, gap, rates, now, self._belief.clock.gap)
        pages = PagesRead(now, slots, gap, rates, rows, reading, of_each)
        belief = informed(rows, reading)
        rate = (belief * rates).sum(1)
        window = np.minimum(since, gap)
        windows = window, window + np.where(gap > since, _SLOPE_STEP * since, 0.0)
        recall, false_rate = np.array([(of.recall, of.false_rate) for of in sources])[place].T
        table = self._slot_table
        price = self.price * table.cost[slots]
        if (waiting := self._pages.waiting) is not None:
            terms = ReadingTerms(rate, recall, false_rate, table.weight[slots], price)
            return waiting.fetch_gain(slots, waiting.expected(pages, belief), windows, terms)
        unchanged = (belief * np.exp(-reading.level)).sum(1)
        value = table.weight[slots] / (rate if self._pages.freshness else 1.0)
        due = due_level(price / np.maximum(value, 1e-300))
        before = np.minimum(unchanged * np.exp(rate * window), 1.0)
        now_gain, then_gain = (fetch_gain(before, one, rate, recall, false_rate, due, value) for one in windows)
        return now_gain, then_gain

    def forget(self, source: int) -> None:
        """Forgets what was computed for a source."""
        here = self._known.numbers == source
        self._known.index[here] = self._known.computed_at[here] = -np.inf
