"""The index of pages with sources of signals, and of the sources that have to be polled (docs/signals.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.index import decay_rates
from pollerd.allocation.objectives import CLOCK_ERROR_S
from pollerd.allocation.registered import TIMELY
from pollerd.allocation.signals.pairs import SignalTimes, informed, windows
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.signals.waiting import (
    Pending,
    SignalEvidence,
    covered_shares,
    deadline_waiting_value,
    delay_gain,
    delay_waiting_value,
    gain_of_reading,
    gain_of_reading_items,
    item_gain,
    pending,
    pending_of,
)
from pollerd.allocation.slots import SlotTable
from pollerd.allocation.whittle import grid
from pollerd.allocation.whittle.belief import Belief
from pollerd.allocation.whittle.index import EARLY, TimelyIndex
from pollerd.allocation.whittle.priors import ORDINARY_CLOCK
from pollerd.allocation.whittle.signal_bounds import (
    NO_BOUNDS,
    IndexBounds,
    PagesRead,
    ReadingTerms,
    SignalBounds,
    SignalledPages,
    SourceIndex,
    WaitingIndex,
)
from pollerd.errors import InvalidValueError
from pollerd.texts import _, n_

# The index under `interest`.

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


# The index under `delay` and `deadline`.

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


_ROWS_AT_A_TIME = 16_384
_BELIEVED = 0.5
"""Say from which the silence of a source about pages without polls teaches what pages are like."""
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


class SignalIndex:
    """Puts signals into the index: of pages by effective elapsed time, of polled sources by their expected gain.

    `signals` holds sources and pages; without a source nothing here is used.
    """

    def __init__(
        self,
        belief: Belief,
        slot_table: SlotTable,
        objective: str,
        timely: TimelyIndex,
        without: Callable[[NDArray[np.int64], Array], Array],
        progress: Callable[[float], float],
    ) -> None:
        """without: returns the index float64[k] without signals, of slots int64[k] at gaps float64[k] s; progress: a
        reading (s) of the clock of the gaps at epoch s.
        """
        self._belief = belief
        self.signals = signals = Signals(_TIMES.get(objective, SignalTimes.NONE))
        self._interest = InterestSignals(slot_table, signals) if objective == "interest" else None
        self._waiting = waiting = TimelySignals(timely, signals) if objective in TIMELY else self._interest
        self._pages = pages = SignalledPages(belief, signals, objective, waiting)
        self.bounds = SignalBounds(pages, belief, signals, without, progress, fades=objective in ORDINARY_CLOCK)
        self.sources = SourceIndex(pages, belief, slot_table, signals)

    # -- pages

    def apply(self, slots: NDArray[np.int64], gap: Array, now: float, value: Array) -> Array:
        """Returns the index of slots int64[k], for weight and cost 1, gap float64[k] s: `value` where no source is."""
        out = value.copy()
        for some in self._pieces(slots):
            out[some] = self._mixed(self._pages.read(slots[some], gap[some], now), value[some])
        return out

    def apply_bounded(
        self, slots: NDArray[np.int64], gap: Array, now: float, value: Array, level: Array
    ) -> tuple[Array, IndexBounds]:
        """Returns `apply`, and bounds of the index of the slots with sources.

        level float64[k]: from which a slot is looked at. Tight bounds hold for about half of the time in which a page
        would reach that level if no source were read, as long as it is not polled, no signal for it comes, and `moved`
        does not name it. A reading makes all bounds hold longer (`postponed`).
        """
        out, bounds = value.copy(), [NO_BOUNDS]
        for some in self._pieces(slots):
            pages = self._pages.read(slots[some], gap[some], now)
            out[some] = self._mixed(pages, value[some])
            bounds.append(self.bounds.of(pages, some, value[some], out[some], level[some]))
        return out, IndexBounds.joined(bounds)

    def _pieces(self, slots: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yields the places of slots int64[k] that sources speak for, ascending, int64[m], a piece at a time."""
        told = np.flatnonzero(self.signals.pairs.first(slots) >= 0)
        for at in range(0, len(told), _ROWS_AT_A_TIME):
            yield told[at : at + _ROWS_AT_A_TIME]

    def _mixed(self, pages: PagesRead, value: Array) -> Array:
        """Returns the index float64[k]; value float64[k]: without signals."""
        reading, now = pages.reading, np.zeros(len(value))
        mine = self._pages.index(pages, informed(pages.rows, reading), reading.level, now)
        return np.asarray(reading.say * mine + (1.0 - reading.say) * value)

    def note_source(self, source: int) -> None:
        """Notes that a source was read, gave a sign of life, or has other pages: what was computed for it is old."""
        self.sources.forget(source)
        self.bounds.note_source(source)

    def change_probability(self, slots: NDArray[np.int64], gap: Array, now: float, without: Array) -> Array:
        """Returns the probability float64[k] of a change since the last polls of slots int64[k], gap float64[k] s ago.

        `without` float64[k]: that without signals, returned where no source is.
        """
        out = without.copy()
        some = np.flatnonzero(self.signals.pairs.first(slots) >= 0)
        if some.size:
            rates, rows = self._pages.rows(slots[some], gap[some])
            reading, _ = self.signals.read(slots[some], gap[some], rates, now, self._belief.clock.gap)
            quiet = (informed(rows, reading) * np.exp(-reading.level)).sum(1)
            out[some] = reading.say * (1.0 - quiet) + (1.0 - reading.say) * without[some]
        return out

    def words(self, slot: int) -> dict[str, str]:
        """Returns what signals say of a slot, as `Allocator.notes` does; nothing where no source is."""
        sources = len(self.signals.pairs.levels(np.array([slot])))
        if not sources:
            return {}
        number = math.ceil(self.signals.waiting(np.array([slot]))[0])
        said = _(
            "{signals} since the last poll, of {sources}, trust {trust}",
            signals=n_("{count} signal", "{count} signals", number),
            sources=n_("{count} source", "{count} sources", sources),
            trust=f"{self.signals.say(slot):.0%}",
        )
        return {"signals": said}

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
        self.bounds.learned({source})
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
            rates, rows = self._pages.rows(some, gap)
            reading, of = self.signals.read(some, gap, rates, now, self._belief.clock.gap)
            self.bounds.learned(self.signals.learn(some, (reading, of), rates, rows, changed[again]))
            evidence = SignalEvidence(again, len(slots), tuple(of), reading.say, gap)
        self.signals.polled(slots[there], now)
        return evidence

    def known_slots(self) -> NDArray[np.int64]:
        """Returns the slots that have sources that are believed, and a known last poll, int64[n]."""
        pairs = self.signals.pairs
        pages = self.signals.believed(_BELIEVED) if self.signals.active else np.empty(0, np.int64)
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
            reading, _ = self.signals.read(some, gap, rates, now, self._belief.clock.gap)
            out[at : at + len(some)] = reading.say[:, None] * reading.evidence
        return which, out

    # -- storage

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage; none without sources."""
        quality = self.signals.state()
        return {**quality, "signal_price": np.array([self.sources.price])} if quality else {}

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
        self.bounds.clear()
        self.sources.price = max(float(arrays["signal_price"][0]), 0.0)
