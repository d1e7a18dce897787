"""Index of pages that have sources of signals, and of the sources that have to be polled (docs/signals.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import g
from pollerd.allocation.core.objectives.names import TIMELY
from pollerd.allocation.signals.evidence import SignalEvidence
from pollerd.allocation.signals.formulas import due_level, fetch_gain
from pollerd.allocation.signals.pairs import SignalTimes
from pollerd.allocation.signals.reading import SignalReading, informed, normalised
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.slots.since import Since
from pollerd.allocation.slots.slot_table import SlotTable
from pollerd.allocation.whittle.interest_signals import InterestSignals
from pollerd.allocation.whittle.rate_model import grid
from pollerd.allocation.whittle.rate_model.belief import Belief
from pollerd.allocation.whittle.timely_index import TimelyIndex
from pollerd.allocation.whittle.timely_signals import TimelySignals
from pollerd.errors import InvalidValueError
from pollerd.wording import counted

Array = NDArray[np.float64]
_ROWS_AT_A_TIME = 16_384
_PRICE_QUANTILE, _PRICE_STEP = 0.2, 0.03
"""The price of a poll is this quantile of the indices polled, followed by this step: their mean is too high just after
a source was read."""
_REFRESH_POLLS = 16.0
_REFRESH_CYCLES = 1 / 64
"""A source's index is computed anew after as many polls of the budget, and after this part of a uniform cycle."""
_PAGES_AT_ONCE, _PAGES_A_CHOICE = 4_096, 1_024
"""Of a source with more pages than the first only so many tell its index; in one choice indices of sources are computed
until they took as many pages as the second."""
_BELIEVED = 0.5
"""Say from which the silence of a source about pages without polls teaches what pages are like."""
_SLOPE_STEP = 0.05
"""Share of the time since a source was read by which the slope of its gain is taken."""
_FIRST_FETCHES = 3.0
"""Unproven sources are read as often in their first uniform cycle."""
SIGNAL_ARRAYS = "signal_"
"""How the names of stored arrays of signals begin."""
_TIMES = {"deadline": SignalTimes.FIRST, "interest": SignalTimes.JOINT}
"""Objectives that keep times of signals."""
_ARRAYS = {
    "signal_sources": "i",
    "signal_quality": "f",
    "signal_price": "f",
}
"""Names and kinds of stored arrays."""
FIRST_FETCH = 1e11
"""Index of a source that is due for one of its first readings: above all pages, below starved ones."""


@dataclass(frozen=True, slots=True)
class IndexBounds:
    """Bounds of the indices of those of k slots that sources speak for.

    places: of them among the k, ascending, int64[m] · value: the bounds for weight and cost 1, float64[m].
    """

    places: NDArray[np.int64]
    value: Array


class SignalIndex:
    """Puts signals into the index: of pages by effective elapsed time, of polled sources by their expected gain.

    `signals` holds sources and pages; without a source nothing here is used.
    """

    def __init__(self, belief: Belief, slot_table: SlotTable, objective: str, timely: TimelyIndex) -> None:
        self._belief, self._slot_table, self._objective = belief, slot_table, objective
        self.signals = Signals(_TIMES.get(objective, SignalTimes.NONE))
        self._interest = InterestSignals(slot_table, self.signals) if objective == "interest" else None
        self._waiting = TimelySignals(timely, self.signals) if objective in TIMELY else self._interest
        """The index of what waits to be found; None: that of -ln P(unchanged)."""
        self.price = 0.0
        """Marginal index of a poll; 0: not known yet."""
        self._values: dict[int, tuple[float, float]] = {}
        """Index of each polled source, and when it was computed, epoch s."""

    @property
    def active(self) -> bool:
        """Whether there are sources, whose signals affect choices."""
        return self.signals.active

    # -- pages

    def apply(self, slots: NDArray[np.int64], gap: Array, now: float, value: Array) -> Array:
        """Returns the index of slots int64[k], for weight and cost 1, gap float64[k] s: `value` where no source is."""
        return self._replaced(slots, gap, now, value, (True,))[0]

    def apply_bounded(
        self, slots: NDArray[np.int64], gap: Array, now: float, value: Array
    ) -> tuple[Array, IndexBounds]:
        """Returns `apply`, and bounds of the index of the slots with sources.

        The bounds grow like an index without signals, whatever sources are read meanwhile: silence that ends, when a
        source was not read for long, is left out.
        """
        (index, bound), told = self._replaced(slots, gap, now, value, (True, False)), self._with_sources(slots)
        return index, IndexBounds(told, bound[told])

    def _with_sources(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the places of slots int64[k] that sources speak for, ascending, int64[m]."""
        return np.flatnonzero(self.signals.pairs.first(slots) >= 0)

    def _replaced(
        self, slots: NDArray[np.int64], gap: Array, now: float, value: Array, silent: tuple[bool, ...]
    ) -> list[Array]:
        """Returns index (silent: True) or bound (False) float64[k], `value` where no source is, as often as asked."""
        told = self._with_sources(slots)
        if not told.size:
            return [value] * len(silent)
        out = [value.copy() for _ in silent]
        for at in range(0, len(told), _ROWS_AT_A_TIME):
            some = told[at : at + _ROWS_AT_A_TIME]
            for into, part in zip(out, self._indices(slots[some], gap[some], now, value[some], silent), strict=True):
                into[some] = part
        return out

    def _indices(
        self, slots: NDArray[np.int64], gap: Array, now: float, value: Array, silent: tuple[bool, ...]
    ) -> list[Array]:
        """Returns what `_replaced` does, of slots int64[k] with sources: what they say is read once for all of it."""
        rates, rows = self._rows(slots, gap)
        reading, of = self.signals.read(slots, gap, rates, now)
        if self._waiting is not None:
            own = self._waiting.indices(slots, gap, now, (reading, of), rates, rows, silent)
        else:
            own = [
                self._silent(rows, reading, rates) if one else self._loud(rows, reading, rates, value) for one in silent
            ]
        mixed = (
            reading.say * mine + (1.0 - reading.say) * value if one else np.maximum(value, mine)
            for one, mine in zip(silent, own, strict=True)
        )
        return [np.asarray(one) for one in mixed]

    def _silent(self, rows: Array, reading: SignalReading, rates: Array) -> Array:
        """Returns the index float64[k] by -ln P(unchanged), if the signals are believed."""
        return self._expected(informed(rows, reading), reading.level, rates)

    def _loud(self, rows: Array, reading: SignalReading, rates: Array, value: Array) -> Array:
        """Returns the index float64[k] if the silence of sources meant nothing; value float64[k]: without signals.

        Where there are no signals it is `value`, but for pages that the common rate tells of: their rates there are
        those of the page's own refinement.
        """
        out = value.copy()
        some = np.arange(len(value))
        if self._belief.common_rate.weight == 1.0:
            some = np.flatnonzero(reading.weight[:, 0] > 0.0)
        weight, say = reading.weight[some], reading.say[some]
        belief = normalised(rows[some], say[:, None] * weight)
        out[some] = self._expected(belief, reading.quiet[some] + weight, rates[some])
        return out

    def change_probability(self, slots: NDArray[np.int64], gap: Array, now: float, without: Array) -> Array:
        """Returns the probability float64[k] of a change since the last polls of slots int64[k], gap float64[k] s ago.

        `without` float64[k]: that without signals, returned where no source is.
        """
        out = without.copy()
        some = np.flatnonzero(self.signals.pairs.first(slots) >= 0)
        if some.size:
            rates, rows = self._rows(slots[some], gap[some])
            reading, _ = self.signals.read(slots[some], gap[some], rates, now)
            quiet = (informed(rows, reading) * np.exp(-reading.level)).sum(1)
            out[some] = reading.say * (1.0 - quiet) + (1.0 - reading.say) * without[some]
        return out

    def words(self, slot: int) -> dict[str, str]:
        """Returns what signals say of a slot, as `Allocator.notes` does; nothing where no source is."""
        sources = len(self.signals.pairs.levels(np.array([slot])))
        if not sources:
            return {}
        number = math.ceil(self.signals.waiting(np.array([slot]))[0])
        said = f"{counted(number, 'signal')} since the last poll, of {counted(sources, 'source')}"
        return {"signals": f"{said}, believed to {self.signals.say(slot):.0%}"}

    def _rows(self, slots: NDArray[np.int64], gap: Array) -> tuple[Array, Array]:
        """Returns rates float64[k, K], 1/s, and the belief without signals, float64[k, K], of slots int64[k]."""
        belief = self._belief
        rows = belief.predicted_rows(slots, gap).astype(np.float64)
        weight = belief.common_rate.weight
        if weight != 1.0:
            rows = weight * rows + (1.0 - weight) * belief.common_rate.cells
        return belief.rates * belief.factor(slots)[:, None], rows / rows.sum(1, keepdims=True)

    def _expected(self, rows: Array, level: Array, rates: Array) -> Array:
        if self._objective == "freshness":
            return np.asarray((rows * g(level) / rates).sum(1))
        return grid.index_of_certainty_equivalent((rows * grid.log_utility(level)).sum(1))

    def until_due(self, slots: NDArray[np.int64], now: float) -> Array:
        """Returns the s until signals make the index of slots int64[k] jump, float64[k]; inf: they do not."""
        if self._waiting is None or not self.signals.active:
            return np.full(len(slots), np.inf)
        return self._waiting.until_due(slots, now)

    def receive(self, slots: NDArray[np.int64], source: int, at: Array, now: float) -> NDArray[np.int64]:
        """Counts signals of a source; returns the slots that got one."""
        belief = self._belief
        rates = (belief.posterior(slots) * belief.rates).sum(1) * belief.factor(slots)
        decay = None if self._interest is None else self._interest.decay(slots)
        return self.signals.receive(slots, source, at, now, rates, decay)

    def learn(
        self, slots: NDArray[np.int64], elapsed: Array, changed: NDArray[np.bool_], now: float
    ) -> SignalEvidence | None:
        """Learns the quality of sources from polls of distinct slots int64[k], before the belief learns from them.

        Returns what the signals say besides; None: nothing.
        """
        there = self.signals.pairs.first(slots) >= 0
        again = np.flatnonzero(there & np.isfinite(elapsed))
        evidence = None
        if again.size:
            some = slots[again]
            gap = self._belief.clock.gap(np.minimum(elapsed[again], 1e12), now)
            rates, rows = self._rows(some, gap)
            reading, of = self.signals.read(some, gap, rates, now)
            self.signals.learn(some, (reading, of), rates, rows, changed[again])
            evidence = SignalEvidence(again, len(slots), tuple(of), reading.say, gap)
        self.signals.polled(slots[there], now)
        return evidence

    def known_slots(self) -> NDArray[np.int64]:
        """Returns the slots that have sources that are believed, and a known last poll, int64[n]."""
        pairs = self.signals.pairs
        pages = self.signals.believed(_BELIEVED) if self.active else np.empty(0, np.int64)
        return pages[np.isfinite(pairs.polled_at[pairs.first(pages)])]

    def since_polls(self, slots: NDArray[np.int64], now: float) -> tuple[NDArray[np.int64], Array]:
        """Returns places int64[m] in slots int64[k], and the log-likelihoods of what was said of them, float64[m, K].

        Since their last polls, at the rates of the window; to the power of the say.
        """
        which = np.flatnonzero(np.isin(slots, self.known_slots()))
        out = np.empty((len(which), grid.CELLS))
        for at in range(0, len(which), _ROWS_AT_A_TIME):
            some = slots[which[at : at + _ROWS_AT_A_TIME]]
            gap = self._belief.clock.gap(self.signals.gaps(some, now), now)
            rates = np.broadcast_to(self._belief.rates[None], (len(some), grid.CELLS))
            reading, _ = self.signals.read(some, gap, rates, now)
            out[at : at + len(some)] = reading.say[:, None] * reading.evidence
        return which, out

    # -- sources that are polled

    def note_price(self, indices: Array) -> None:
        """Follows the marginal price by the indices float64[k] of the pages just polled."""
        for value in indices[(indices > 0) & (indices < FIRST_FETCH)].tolist():
            up = _PRICE_QUANTILE - (value < self.price)
            self.price = self.price * math.exp(_PRICE_STEP * up) if self.price else value

    def polled_slots(self) -> NDArray[np.int64]:
        """Returns the slots whose polls read a source, int64[m]."""
        return np.array([s.polled_as for s in self.signals.sources.values() if s.polled_as >= 0], np.int64)

    def refresh(self, elapsed: Array | Since, now: float) -> None:
        """Computes the indices of sources that are due, given the gaps float64[n] s of all slots."""
        often = self._belief.cycle * min(_REFRESH_POLLS / max(self._slot_table.size, 1), _REFRESH_CYCLES)
        left = _PAGES_A_CHOICE
        waiting = sorted(
            (self._values.get(i, (0.0, -math.inf))[1], i) for i, s in self.signals.sources.items() if s.polled_as >= 0
        )
        for computed, source in waiting:
            if now - computed < often or left <= 0:
                break
            left -= min(len(self.signals.sources[source].slots), _PAGES_AT_ONCE)
            self._values[source] = self._source_value(source, elapsed, now), now

    def forget(self, source: int) -> None:
        """Forgets what was computed for a source."""
        self._values.pop(source, None)

    def readings_due(self) -> NDArray[np.int64]:
        """Returns the slots at which sources are read whose index is at least the marginal price, int64[m].

        Before there is a price: those that are due for one of their first readings.
        """
        least = self.price or FIRST_FETCH
        due = {self.signals.sources[source].polled_as for source, (index, _) in self._values.items() if index >= least}
        return np.array(sorted(slot for slot in due if slot >= 0), np.int64)

    def raise_sources(self, slots: NDArray[np.int64], value: Array) -> Array:
        """Returns urgencies float64[k] of slots int64[k], raised to the index of the sources that are read there."""
        if not self._values:
            return value
        sources = self.signals.sources
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
        of = self.signals.sources[source]
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
        rates, rows = self._rows(known, gap)
        reading, pages = self.signals.read(known, gap, rates, now)
        rows = informed(rows, reading)
        rate = (rows * rates).sum(1)
        window = np.minimum(since, gap)
        later = window + np.where(gap > since, _SLOPE_STEP * since, 0.0)
        table = self._slot_table
        if self._waiting is not None:
            number, weight = self._waiting.expected(known, now, (reading, pages), gap, rates, rows), table.weight[known]
            quality, price = (of.recall, of.false_rate), self.price * table.cost[known]
            now_gain, then_gain = self._waiting.fetch_gain(known, number, (window, later), rate, quality, weight, price)
        else:
            unchanged = (rows * np.exp(-reading.level)).sum(1)
            value = table.weight[known] / (rate if self._objective == "freshness" else 1.0)
            due = due_level(self.price * table.cost[known] / np.maximum(value, 1e-300))
            before = np.minimum(unchanged * np.exp(rate * window), 1.0)
            now_gain, then_gain = (
                float(fetch_gain(before, one, rate, of.recall, of.false_rate, due, value).sum())
                for one in (window, later)
            )
        gain = (now_gain - (then_gain - now_gain) / _SLOPE_STEP) * len(of.slots) / len(some)
        return float(max(of.say * gain / table.cost[of.polled_as], 0.0))

    # -- storage

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage; none without sources."""
        quality = self.signals.state()
        return {**quality, "signal_price": np.array([self.price])} if quality else {}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores `state`; the window must have been restored before.

        Raises InvalidValueError for arrays that `state` cannot have returned. Arrays without signals change nothing.
        """
        kept = {name: array for name, array in arrays.items() if name.startswith(SIGNAL_ARRAYS)}
        if not kept:
            return
        missing = sorted(set(_ARRAYS) ^ set(kept))
        if missing or any(kept[name].dtype.kind != kind for name, kind in _ARRAYS.items()):
            raise InvalidValueError("shared_state", f"arrays {', '.join(_ARRAYS)}", ", ".join(sorted(kept)))
        if kept["signal_price"].size != 1:
            raise InvalidValueError("shared_state", "one price", f"{kept['signal_price'].size}")
        self.signals.restore(arrays)
        self.price = max(float(arrays["signal_price"][0]), 0.0)
