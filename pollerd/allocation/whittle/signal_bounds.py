"""Bounds of the time in which pages and sources of signals need not be looked at, and the index of the sources.

A page of which its sources are silent has an index near 0, which would be that without signals if the silence ended: if
no source were read any more, say. Until then it would take a while, so there are two bounds. The loose one takes
silence for nothing and holds for as long as `LazyTopK` allows an index without signals. The tight one holds for a part
of a uniform cycle: if no source is read, the expected number of changes grows by λ a second at most. It also needs that
sources stay as good as they are known to be (`moved`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import PUSHED
from pollerd.allocation.index import g
from pollerd.allocation.signals.pairs import SignalReading, Window, informed, normalised
from pollerd.allocation.signals.quality import LearnedSource, due_level, fetch_gain
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.signals.waiting import Pending
from pollerd.allocation.slots import Since, SlotTable
from pollerd.allocation.whittle import grid
from pollerd.allocation.whittle.belief import Belief
from pollerd.allocation.whittle.clock import FAST_HAZARD
from pollerd.allocation.whittle.priors import ORDINARY_CLOCK

# Pages that sources speak for at one moment, and the interface of an index of the changes that wait for them.

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PagesRead:
    """Pages that sources speak for, at `now`, epoch s: k pages, K rates.

    slots int64[k] · gap float64[k], s · rates float64[k, K], 1/s · rows float64[k, K]: the belief without signals ·
    reading, of: what `Signals.read` returns of them.
    """

    now: float
    slots: NDArray[np.int64]
    gap: Array
    rates: Array
    rows: Array
    reading: SignalReading
    of: list[Window]

    def take(self, places: NDArray[np.int64]) -> PagesRead:
        """Selects pages, in the given order, and the windows of their sources."""
        slots, gap, rates, rows = self.slots[places], self.gap[places], self.rates[places], self.rows[places]
        windows = (window.take(places) for window in self.of)
        of = [window for window in windows if window.recall.any()]
        return PagesRead(self.now, slots, gap, rates, rows, self.reading.take(places), of)


@dataclass(frozen=True, slots=True)
class ReadingTerms:
    """What the gain of reading a source depends on, of k of its pages, float64[k] each.

    rate: 1/s · recall, false_rate: quality of the source · weight: of a change found · price: θ C of a page's poll.
    """

    rate: Array
    recall: Array
    false_rate: Array
    weight: Array
    price: Array


class WaitingIndex(ABC):
    """Index of pages that sources speak for by what waits to be found, for weight and cost 1."""

    @abstractmethod
    def index(self, pages: PagesRead, belief: Array, ahead: Array) -> Array:
        """Returns the index `ahead` float64[k] s later, float64[k].

        belief float64[k, K]: with signals, then. Until then nothing is read, and nothing jumps (`until_due`).
        """

    @abstractmethod
    def waiting(self, pages: PagesRead) -> Pending:
        """Returns what waits now."""

    @abstractmethod
    def fetch_gain(
        self, slots: NDArray[np.int64], waiting: Array, window: tuple[Array, Array], terms: ReadingTerms
    ) -> tuple[Array, Array]:
        """Returns the gains of reading the sources of pages now and a little later, float64[k] each, of slots int64[k].

        waiting float64[k]: what waits now, for weight 1; window: s since the last information, now and later.
        """

    def expected(self, pages: PagesRead, belief: Array) -> Array:
        """Returns what is expected to wait, for weight 1, float64[k]; belief float64[k, K]: with signals."""
        waiting = self.waiting(pages)
        return np.asarray((belief * (waiting.unannounced + waiting.announced)).sum(1))

    def until_due(self, slots: NDArray[np.int64], _now: float) -> Array:
        """Returns the s until signals make the index of slots int64[k] jump, float64[k]; inf: they do not."""
        return np.full(len(slots), np.inf)


# Readings of the sources of pages, and the index of pages as far as the sources are trusted (docs/signals.md).


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


_MIN_AHEAD, _MAX_AHEAD = 1 / 256, 1 / 8
"""Bounds of indices hold for the second part of a uniform cycle at most; a page just polled is taken to have waited the
first."""
_SHORT = 1 / 64
"""Part of a uniform cycle: a page that may wait so long whatever its sources say needs no tight bound."""
_DOUBT_STEP, _MISSED_STEP, _FALSE_STEP, _POWER_STEP, _LATE_STEP = 0.25, 0.1, 0.05, 0.02, 1 / 2048
"""Tight bounds allow for twice these steps to the worse in what was learned of a source: in the logs of how little it
is believed, of the share that it misses and of its false rate, in the power of the rate with which false signals grow,
and in its delay, as a part of a uniform cycle."""
_TRUSTED, _SURE = 0.0, 4.6
"""Log odds of sources of whose pages indices have a tight bound, and of pages whose silent sources are as good as
believed."""
_UNTRUSTED = np.full(6, -np.inf)
"""What is known of a source of whose pages no index has a tight bound."""


@dataclass(frozen=True, slots=True)
class IndexBounds:
    """Bounds of the indices of those of k slots that sources speak for, for weight and cost 1.

    places: of them among the k, ascending, int64[m] · loose float64[m]: of an index that grows like one without
    signals, whatever sources say · tight float64[m]: of the index until `ahead` float64[m] s of its clock later, where
    that is not 0.
    """

    places: NDArray[np.int64]
    loose: Array
    tight: Array
    ahead: Array

    @staticmethod
    def joined(parts: list[IndexBounds]) -> IndexBounds:
        """Returns the bounds of all parts, in this order."""
        own = [np.concatenate(some) for some in zip(*((a.loose, a.tight, a.ahead) for a in parts), strict=True)]
        return IndexBounds(np.concatenate([part.places for part in parts]), *own)


NO_BOUNDS = IndexBounds(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0))


class SignalBounds:
    """Bounds of the indices of pages that sources speak for, and which of them do not hold any more."""

    def __init__(
        self,
        pages: SignalledPages,
        belief: Belief,
        signals: Signals,
        without: Callable[[NDArray[np.int64], Array], Array],
        progress: Callable[[float], float],
        *,
        fades: bool,
    ) -> None:
        """without: returns the index float64[k] without signals, of slots int64[k] at gaps float64[k] s; progress: a
        reading (s) of the clock of the gaps at epoch s; fades: whether what waits is worth less with time.
        """
        self._pages, self._belief, self._signals = pages, belief, signals
        self._without, self._progress, self._fades = without, progress, fades
        self._learned_of: set[int] = set()
        """Sources of which something was learned since `moved` was asked."""
        self._least_known: dict[int, Array] = {}
        """The worst that bounds allow for in what is known of sources, in steps."""
        self._part, self._parted_at = 0, -np.inf
        """Where the next part of all pages begins that `moved` returns, and the clock's progress then."""
        self._silent: set[int] = set()
        """Pushed sources that are silent."""
        self._silent_from = np.inf
        """When the next pushed source falls silent, epoch s, at the earliest."""

    def of(self, pages: PagesRead, places: NDArray[np.int64], value: Array, index: Array, level: Array) -> IndexBounds:
        """Returns the bounds of the pages at `places` int64[k].

        value, index float64[k]: without and with signals; level float64[k]: that a page is to stay below.
        """
        loose = np.maximum(self._loose(pages, value), index)
        tight, ahead = self._tight(pages, value, index, loose, level)
        return IndexBounds(places, loose, tight, ahead)

    def _loose(self, pages: PagesRead, value: Array) -> Array:
        """Returns the index float64[k] if the silence of sources meant nothing; value float64[k]: without signals.

        Where there are no signals it is `value`, but for pages that the common rate tells of: their rates there are
        those of the page's own refinement.
        """
        out = value.copy()
        some = np.arange(len(value))
        if self._belief.common_rate.weight == 1.0 and self._pages.waiting is None:
            some = np.flatnonzero(pages.reading.weight[:, 0] > 0.0)
        if some.size:
            pages = pages.take(some)
            reading = pages.reading
            belief = normalised(pages.rows, reading.say[:, None] * reading.signal_evidence)
            untold = reading.silence[:, 0] / pages.rates[:, 0]
            out[some] = np.maximum(
                value[some], self._pages.index(pages, belief, reading.quiet + reading.weight, untold)
            )
        return out

    def _tight(self, pages: PagesRead, value: Array, index: Array, loose: Array, level: Array) -> tuple[Array, Array]:
        """Returns tight bounds float64[k], and for how long they hold, s float64[k], where they are of use.

        value, index float64[k]: without and with signals; loose: its bound; level: that it is to stay below.
        """
        tight, ahead = np.full(len(value), np.inf), np.zeros(len(value))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            wait = pages.gap * (np.sqrt(np.sqrt(level / loose)) - 1.0)
        hope = (index < level) & ((1.0 - self._least_say(pages)) * value < level)
        hope &= (loose >= level) | (wait < _SHORT * self._belief.cycle)
        some = np.flatnonzero(hope)
        some = some[self._all_trusted(pages.slots[some])]
        if some.size:
            pages = pages.take(some)
            ahead[some] = self._time_to(pages, index[some], level[some])
            tight[some] = np.maximum(self._bound(pages, ahead[some]), index[some])
        return tight, ahead

    def _all_trusted(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns of which of slots int64[k] all sources are trusted, bool[k]."""
        pairs, out = self._signals.pairs, np.ones(len(slots), np.bool_)
        for row in pairs.levels(slots):
            there = np.flatnonzero(row >= 0)
            sources, place = np.unique(pairs.source[row[there]], return_inverse=True)
            out[there] &= np.array([self._is_trusted(source) for source in sources.tolist()], np.bool_)[place]
        return out

    def _is_trusted(self, source: int) -> bool:
        return bool(np.isfinite(self._least_known.get(source, _UNTRUSTED)).all())

    def _time_to(self, pages: PagesRead, value: Array, level: Array) -> Array:
        """Returns half of the time, s float64[k], in which indices `value` float64[k] reach a level float64[k].

        If they grow like the square of L, and L with the mean rate.
        """
        rows = informed(pages.rows, pages.reading)
        cycle = self._belief.cycle
        since = np.maximum((rows * pages.reading.level).sum(1) / (rows * pages.rates).sum(1), _MIN_AHEAD * cycle)
        with np.errstate(over="ignore"):
            growth = np.sqrt(np.maximum(level, 0.0) / np.maximum(value, 1e-300)) - 1.0
        return np.asarray(np.clip(0.5 * growth * since, 0.0, _MAX_AHEAD * cycle))

    def _least_say(self, pages: PagesRead) -> Array:
        """Returns how far sources are believed at least, float64[k], while `moved` does not name the pages."""
        return np.asarray(np.maximum(1.0 - (1.0 - pages.reading.say) * math.exp(2.0 * _DOUBT_STEP), 0.0))

    def _bound(self, pages: PagesRead, ahead: Array) -> Array:
        """Returns bounds float64[k] of the index while L grows as in `ahead` float64[k] s without a reading.

        And while `moved` does not name the pages. Meanwhile the belief drifts, and what was learned of sources moves by
        twice the steps at most.
        """
        cycle, reading = self._belief.cycle, pages.reading
        later = pages.gap + _MAX_AHEAD * cycle
        _, rows = self._pages.rows(pages.slots, later)
        less = self._least_say(pages)
        untold = (reading.quiet[:, 0] - reading.silence[:, 0]) / pages.rates[:, 0]
        slack = ahead + 2.0 * _LATE_STEP * cycle + math.expm1(2.0 * _MISSED_STEP) * untold
        level = reading.level + pages.rates * slack[:, None] + 2.0 * _FALSE_STEP * reading.weight
        # The belief is fastest where silence is believed least, and signals most.
        believed = np.where(reading.weight[:, 0] > 0.0, 1.0, less)
        # false signals are evidence on the rate where they grow with it
        both = reading.signal_evidence - reading.weight + reading.silence_evidence - reading.silence
        evidence = reading.evidence + 2.0 * _FALSE_STEP * both
        mine = self._pages.index(pages, normalised(rows, believed[:, None] * evidence), level, slack)
        bound = np.maximum(less * mine + (1.0 - less) * self._without(pages.slots, later), mine * believed)
        # Of each rate of an earlier belief at least this share is in the later one.
        return np.asarray(bound * math.exp(2.0 * FAST_HAZARD * _MAX_AHEAD))

    def moved(self, now: float) -> NDArray[np.int64]:
        """Returns the slots, with repeats, of which bounds may not hold any more.

        Those of sources that fell silent, or are known to be worse than bounds allow for, and a part of all, so that
        each is named once in the time for which bounds hold at most.
        """
        slots = [self._next_part(now)]
        sources = self._signals.sources
        for source in self._learned_of & sources.keys():
            known, least = _known_of(sources[source], self._belief.cycle), self._least_known.get(source, _UNTRUSTED)
            if (known < least).any():
                slots.append(sources[source].slots)
                least = _UNTRUSTED
            # It may become better: bounds of pages looked at from now on are tighter, and hold for less.
            self._least_known[source] = np.where(known > least + 2.0, known - 1.0, least)
        self._learned_of.clear()
        if now >= self._silent_from:
            ended = {i: of for i, of in sources.items() if of.silent_from <= now}
            slots += [of.slots for i, of in ended.items() if i not in self._silent]
            self._silent = set(ended)
            self._silent_from = min((of.silent_from for of in sources.values() if of.silent_from > now), default=np.inf)
        return np.concatenate(slots)

    def _next_part(self, now: float) -> NDArray[np.int64]:
        """Returns the next slots of all that sources speak for, as many as the time since the last call asks for."""
        rows = self._signals.pairs.slot
        share = (self._progress(now) - self._parted_at) / (_MAX_AHEAD * self._belief.cycle)
        number = math.ceil(min(max(share, 0.0), 1.0) * len(rows))
        at = self._part % max(len(rows), 1)
        self._parted_at, self._part = self._progress(now), at + number
        again = rows[: max(at + number - len(rows), 0)]
        return np.concatenate([rows[at : at + number], again]).astype(np.int64)

    def postponed(self, source: int, now: float) -> tuple[NDArray[np.int64], float]:
        """Returns slots int64[m] of which bounds hold longer once a source is read now, and by how many s of the clock.

        To be asked before the reading is noted. Not of pages with several sources, nor where what waits fades.
        """
        of = self._signals.sources[source]
        if of.polled_as == PUSHED or not np.isfinite(of.fetched_at) or self._fades:
            return np.empty(0, np.int64), 0.0
        unread = float(self._belief.clock.gap(np.array([max(now - of.fetched_at, 0.0)]), now)[0])
        pairs = self._signals.pairs
        row = pairs.first(of.slots)
        alone = (pairs.following[row] < 0) & (of.log_odds + pairs.log_odds[row] >= _SURE)
        alone &= np.isfinite(pairs.polled_at[row]) & (pairs.polled_at[row] <= of.fetched_at - of.late - pairs.origin)
        return np.asarray(of.slots[alone]), max(1.0 - (1.0 - of.recall) * math.exp(2.0 * _MISSED_STEP), 0.0) * unread

    def learned(self, sources: set[int]) -> None:
        """Notes that something was learned of these sources."""
        self._learned_of |= sources

    def note_source(self, source: int) -> None:
        """Notes that a source was read, gave a sign of life, or has other pages."""
        self._silent.discard(source)
        of = self._signals.sources.get(source)
        if of is None:
            self._least_known.pop(source, None)
        else:
            self._silent_from = min(self._silent_from, of.silent_from)
            self._learned_of.add(source)

    def clear(self) -> None:
        """Forgets what was known of sources: everything is looked at anew."""
        self._least_known.clear()


def _known_of(source: LearnedSource, cycle: float) -> Array:
    """Returns what was learned of a source that indices depend on, in steps to the better, float64[6].

    What false signals depend on makes some pages' indices larger whichever way it moves.
    """
    if source.log_odds < _TRUSTED:
        return _UNTRUSTED
    false_rate, power = source.false_signals
    return np.array(
        [
            source.log_odds / _DOUBT_STEP,  # -ln(1 - say) of a page moves by no more
            -math.log(1.0 - source.recall) / _MISSED_STEP,
            math.log(false_rate) / _FALSE_STEP,
            power / _POWER_STEP,
            -power / _POWER_STEP,
            -(source.late + source.batch_gap) / (_LATE_STEP * cycle),
        ]
    )


# The index of sources that have to be polled: the value of reading one now.

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
