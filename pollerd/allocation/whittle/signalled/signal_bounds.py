"""How long pages need not be looked at, whatever their sources say, or as long as these are as good as they are known.

A page of which its sources are silent has an index near 0, which would be that without signals if the silence ended: if
no source were read any more, say. Until then it would take a while, so there are two bounds. The loose one takes
silence for nothing and holds for as long as `LazyTopK` allows an index without signals. The tight one holds for a part
of a uniform cycle: if no source is read, the expected number of changes grows by λ a second at most. It also needs that
sources stay as good as they are known to be (`moved`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.signals.quality import LearnedSource
from pollerd.allocation.signals.reading import informed, normalised
from pollerd.allocation.signals.signals import Signals
from pollerd.allocation.source_quality import PUSHED
from pollerd.allocation.whittle.rate_model.belief import Belief
from pollerd.allocation.whittle.rate_model.drift import FAST_HAZARD
from pollerd.allocation.whittle.signalled.signalled_pages import SignalledPages
from pollerd.allocation.whittle.signalled.waiting_index import PagesRead

Array = NDArray[np.float64]
_LEAST_AHEAD, _MOST_AHEAD = 1 / 256, 1 / 8
"""Bounds of indices hold for the second part of a uniform cycle at most; a page just polled is taken to have waited the
first."""
_SHORT = 1 / 64
"""Part of a uniform cycle: a page that may wait so long whatever its sources say needs no tight bound."""
_DOUBT_STEP, _MISSED_STEP, _FALSE_STEP, _LATE_STEP = 0.25, 0.1, 0.05, 1 / 2048
"""Tight bounds allow for twice these steps to the worse in what was learned of a source: in the logs of how little it
is believed, of the share that it misses and of its false rate, and in its delay, as a part of a uniform cycle."""
_TRUSTED, _SURE = 0.0, 4.6
"""Log odds of sources of whose pages indices have a tight bound, and of pages whose silent sources are as good as
believed."""
_UNTRUSTED = np.full(4, -np.inf)
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
            belief = normalised(pages.rows, reading.say[:, None] * reading.weight)
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
        since = np.maximum((rows * pages.reading.level).sum(1) / (rows * pages.rates).sum(1), _LEAST_AHEAD * cycle)
        with np.errstate(over="ignore"):
            growth = np.sqrt(np.maximum(level, 0.0) / np.maximum(value, 1e-300)) - 1.0
        return np.asarray(np.clip(0.5 * growth * since, 0.0, _MOST_AHEAD * cycle))

    def _least_say(self, pages: PagesRead) -> Array:
        """Returns how far sources are believed at least, float64[k], while `moved` does not name the pages."""
        return np.asarray(np.maximum(1.0 - (1.0 - pages.reading.say) * math.exp(2.0 * _DOUBT_STEP), 0.0))

    def _bound(self, pages: PagesRead, ahead: Array) -> Array:
        """Returns bounds float64[k] of the index while L grows as in `ahead` float64[k] s without a reading.

        And while `moved` does not name the pages. Meanwhile the belief drifts, and what was learned of sources moves by
        twice the steps at most.
        """
        cycle, reading = self._belief.cycle, pages.reading
        later = pages.gap + _MOST_AHEAD * cycle
        _, rows = self._pages.rows(pages.slots, later)
        less = self._least_say(pages)
        untold = (reading.quiet[:, 0] - reading.silence[:, 0]) / pages.rates[:, 0]
        slack = ahead + 2.0 * _LATE_STEP * cycle + math.expm1(2.0 * _MISSED_STEP) * untold
        level = reading.level + pages.rates * slack[:, None] + 2.0 * _FALSE_STEP * reading.weight
        # The belief is fastest where silence is believed least, and signals most.
        believed = np.where(reading.weight[:, 0] > 0.0, 1.0, less)
        mine = self._pages.index(pages, normalised(rows, believed[:, None] * reading.evidence), level, slack)
        bound = np.maximum(less * mine + (1.0 - less) * self._without(pages.slots, later), mine * believed)
        # Of each rate of an earlier belief at least this share is in the later one.
        return np.asarray(bound * math.exp(2.0 * FAST_HAZARD * _MOST_AHEAD))

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
        share = (self._progress(now) - self._parted_at) / (_MOST_AHEAD * self._belief.cycle)
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
    """Returns what was learned of a source that indices depend on, in steps to the better, float64[4]."""
    if source.log_odds < _TRUSTED:
        return _UNTRUSTED
    return np.array(
        [
            source.log_odds / _DOUBT_STEP,  # -ln(1 - say) of a page moves by no more
            -math.log(1.0 - source.recall) / _MISSED_STEP,
            math.log(source.false_rate) / _FALSE_STEP,
            -source.late / (_LATE_STEP * cycle),
        ]
    )
