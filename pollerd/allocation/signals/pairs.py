"""Pages and the sources that speak for them, with the signals since each page's last poll."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.signals.quality import LearnedSource, say_at

_OWN = 4.0
"""Shape of the Gamma prior of each page's false signals, relative to what is usual for its source: as many of them
there count as much as what its own polls show."""
_KEEP = 0.98
"""Factor by which earlier polls of a page count less at each poll."""
_MAX_ODDS = 16.0
_FINEST, _STEPS = 0.1, (1.0, 60.0, 3600.0, 86400.0)
"""s: dates are written to the second, the minute, the hour or the day, or finer."""


class SignalTimes(Enum):
    """What is kept of the times of a page's signals since its last poll."""

    NONE = 0
    FIRST = 1
    """That of the first one."""
    JOINT = 2
    """That of one signal that is worth as much as all of them, as their worth decays."""


class Pairs:
    """One row per page and source.

    `slot`, `source`, `following` int32[m] (next row of the same page, -1: none) · `number` float32[m], signals since
    the page's last poll · `log_odds` float32[m], what polls of this page add to those of the source's say, with
    forgetting: half of a list may lie · `head` int32[capacity], a page's first row, -1: none. In a page's first row:
    `polled_at` float32[m], s after `origin`, -inf: unknown. `dated_at` float32[m], s after `origin`: the last date that
    the source gave, -inf: none · `announced` bool[m]: whether that is of a change since the page's last poll, and not
    of the time at which the list was made · `after_poll` float32[m], s from the page's last poll to the only undated
    signal of a pushed source since then; inf: none, nan: several, or of a page without polls · `early` float32[m]: how
    many of these signals, if all were true, would tell of changes before the page's last poll, expected, as far as its
    source is late · `false`, `usual` float32[m]: expected numbers of false signals before the page's polls, there and
    as is usual for its source, with forgetting. 45 bytes a row, and 4 a slot. With `times` also `time`
    float32[m], s after `origin` of the page's signals since its last poll, not finite: none; else it is empty.
    """

    def __init__(self, times: SignalTimes = SignalTimes.NONE) -> None:
        self._times = times
        self._no_time = -np.inf if times is SignalTimes.JOINT else np.inf
        self.origin = 0.0
        self.unknown = np.zeros(0, np.int64)
        """Slots with sources, int64[k], whose last polls are not known here, ascending."""
        self.slot = self.source = self.following = self.head = np.zeros(0, np.int32)
        self.number = self.polled_at = self.time = self.log_odds = np.zeros(0, np.float32)
        self.dated_at = self.after_poll = self.early = self.false = self.usual = np.zeros(0, np.float32)
        self.announced = np.zeros(0, np.bool_)

    def rebuild(self, sources: dict[int, LearnedSource], capacity: int) -> None:
        """Lays out the rows anew for the sources' pages; rows that remain keep their numbers."""
        before = copy(self)
        ids = sorted(sources)
        sizes = [len(sources[i].slots) for i in ids]
        self.slot = np.concatenate([np.zeros(0, np.int64), *(sources[i].slots for i in ids)]).astype(np.int32)
        self.source = np.repeat(np.array(ids, np.int64), sizes).astype(np.int32)
        self.following = np.full(len(self.slot), -1, np.int32)
        self.head = np.full(capacity, -1, np.int32)
        for i, end in zip(ids, np.cumsum(sizes, dtype=np.int64).tolist(), strict=True):
            slots = sources[i].slots
            rows = np.arange(end - len(slots), end, dtype=np.int32)
            self.following[rows] = self.head[slots]
            self.head[slots] = rows
        self._carry(before)
        first = self.head[(pages := self.pages())]
        self.unknown = pages[np.isneginf(self.polled_at[first])]

    def pages(self) -> NDArray[np.int64]:
        """Returns the slots that have sources, ascending, int64[n]."""
        return np.flatnonzero(self.head >= 0)

    def _carry(self, before: Pairs) -> None:
        rows = len(self.slot)
        self.number, self.log_odds, self.early, self.false, self.usual = np.zeros((5, rows), np.float32)
        self.polled_at, self.dated_at = np.full((2, rows), -np.inf, np.float32)
        self.announced = np.zeros(rows, np.bool_)
        self.after_poll = np.full(rows, np.inf, np.float32)
        self.time = np.full(rows if self._times is not SignalTimes.NONE else 0, self._no_time, np.float32)
        if not len(before.slot) or not rows:
            return
        old, new = _key(before.slot, before.source), _key(self.slot, self.source)
        order = np.argsort(old)
        found = order[np.minimum(np.searchsorted(old, new, sorter=order), len(order) - 1)]
        same = old[found] == new
        for name in _OF_ROWS:
            getattr(self, name)[same] = getattr(before, name)[found[same]]
        if len(self.time):
            self.time[same] = before.time[found[same]]
        pages = np.flatnonzero(self.head[: len(before.head)] >= 0)
        pages = pages[before.head[pages] >= 0]
        self.polled_at[self.head[pages]] = before.polled_at[before.head[pages]]

    def learn(self, rows: NDArray[np.int64], evidence: NDArray[np.float64]) -> None:
        """Adds log Bayes factors float64[k], that signals predict polls of distinct rows int64[k] better than none.

        Each less the usual one of its source: when a source goes wrong, or right again, its pages follow at once.
        """
        self.log_odds[rows] = np.clip(_KEEP * self.log_odds[rows] + evidence, -_MAX_ODDS, _MAX_ODDS)

    def learn_false(self, rows: NDArray[np.int64], false: NDArray[np.float64], usual: NDArray[np.float64]) -> None:
        """Counts false signals of distinct rows int64[k], float64[k] expected, and as many as are usual there."""
        self.false[rows] = _KEEP * self.false[rows] + false
        self.usual[rows] = _KEEP * self.usual[rows] + usual

    def own_false(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns how many times as many false signals rows int64[k] have as is usual for their sources, float64[k]."""
        return np.asarray((_OWN + self.false[rows]) / (_OWN + self.usual[rows]), np.float64)

    def begin(self, now: float) -> None:
        """Counts times from epoch s `now`, if there are none yet: float32 has no room for more."""
        if not any(np.isfinite(times).any() for times in (self.polled_at, self.time, self.dated_at)):
            self.origin = now

    def date(
        self,
        rows: NDArray[np.int64],
        at: NDArray[np.float64],
        number: NDArray[np.float64],
        decay: NDArray[np.float64] | None,
    ) -> None:
        """Notes signals of rows int64[k], of changes at float64[k] epoch s.

        number float64[k]: as how many each counts; decay float64[k], 1/s: of their worth, for joint times.
        """
        if self._times is SignalTimes.FIRST:
            np.minimum.at(self.time, rows, (at - self.origin).astype(np.float32))
        elif self._times is SignalTimes.JOINT and decay is not None:
            with np.errstate(divide="ignore"):
                worth = np.log(number) + decay * (at - self.origin)
            own, place = np.unique(rows, return_inverse=True)
            by_row = np.empty(len(own))
            by_row[place] = decay
            joint = by_row * self.time[own]
            np.logaddexp.at(joint, place, worth)
            self.time[own] = joint / by_row

    def announce(
        self,
        rows: NDArray[np.int64],
        at: NDArray[np.float64],
        news: NDArray[np.bool_],
        newest_before: float,
    ) -> None:
        """Notes dates of rows int64[k], float64[k] epoch s, that a source gave at a time; at least one.

        news bool[k]: of a change since the page's last poll · newest_before: the latest date that the source gave the
        time before, epoch s, -inf: none. Some lists date some pages, always, with the time at which the list is made.
        Such a page has the newest date of all, each time; a page that had not, now or the time before, changed.
        """
        dates, step = (at - self.origin).astype(np.float32), _fineness(at)
        step = np.maximum(step, 2.0 * np.spacing(np.abs(dates)))
        behind = dates.max() - dates >= step
        behind_before = np.zeros(len(rows), np.bool_)
        if np.isfinite(newest_before):
            behind_before = np.float32(newest_before - self.origin) - self.dated_at[rows] >= step
        self.announced[rows[news & (behind | behind_before)]] = True
        np.maximum.at(self.dated_at, rows, dates)

    def use_up(self, rows: NDArray[np.int64]) -> None:
        """Forgets the signals of rows int64[k]."""
        self.number[rows] = self.early[rows] = 0.0
        self.announced[rows] = False
        self.after_poll[rows] = np.inf
        if len(self.time):
            self.time[rows] = self._no_time

    def oldest_age(self, slots: NDArray[np.int64], now: float) -> NDArray[np.float64]:
        """Returns the s since the first signalled change after the last polls of slots int64[k]; -inf: none."""
        at = np.full(len(slots), np.inf)
        for row in self.levels(slots):
            at = np.minimum(at, np.where(row >= 0, self.time[row].astype(np.float64), np.inf))
        return now - self.origin - at

    def worth(self, slots: NDArray[np.int64], decay: NDArray[np.float64], now: float) -> list[NDArray[np.float64]]:
        """Returns Σ e^(-μ age) of the signals since the last polls of slots int64[k], of each level float64[k, 1].

        decay: μ, 1/s, float64[k].
        """
        out = []
        for row in self.levels(slots):
            age = now - self.origin - np.where(row >= 0, self.time[row].astype(np.float64), -np.inf)
            out.append(np.minimum(np.exp(-decay * age), self.number[row])[:, None])
        return out

    def rows_of(self, slots: NDArray[np.int64], source: int) -> NDArray[np.int64]:
        """Returns the rows of a source's pages among the slots int64[k], -1: the source does not speak for it."""
        row = self.first(slots)
        while (wrong := (row >= 0) & (self.source[row] != source)).any():
            row[wrong] = self.following[row[wrong]]
        return row

    def levels(self, slots: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Returns the first rows of the slots int64[k], then the second ones, and so on; -1: no more."""
        out, row = [], self.first(slots)
        while (row >= 0).any():
            out.append(row)
            row = np.where(row >= 0, self.following[row], -1).astype(np.int64)
        return out

    def first(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the first rows of the slots int64[k], -1: no source."""
        if not len(self.slot):
            return np.full(len(slots), -1, np.int64)
        inside = slots < len(self.head)
        return np.where(inside, self.head[np.where(inside, slots, 0)], -1).astype(np.int64)


_OF_ROWS = ("number", "log_odds", "after_poll", "dated_at", "announced", "early", "false", "usual")
"""Arrays of which a row keeps what it has, whatever other pages and sources there are."""


def _fineness(at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns s, float64[k], by which dates at least differ if they are as fine as these seem, epoch s."""
    out = np.full(len(at), _FINEST)
    for step in _STEPS:
        out[at % step == 0.0] = step
    return out


def _key(slot: NDArray[np.int32], source: NDArray[np.int32]) -> NDArray[np.int64]:
    return slot.astype(np.int64) << 32 | source.astype(np.int64)


# Readings of signals at one moment: -ln P(unchanged) and the evidence on the rate, at each rate of a grid.

Array = NDArray[np.float64]
Clock = Callable[[Array, float], Array]
"""Returns the advance (s) of a clock over the last float64[k] s before an epoch s."""
_LONGEST_S = 1e12


@dataclass(frozen=True, slots=True)
class SignalReading:
    """Of k pages, K rates.

    level float64[k, K]: L = -ln P(unchanged) · quiet float64[k, K]: λτ, L without signals · weight float64[k, K]: the
    part of L that signals add · silence float64[k, K]: the part that the silence of sources takes away ·
    signal_evidence, silence_evidence float64[k, K]: logarithms of the evidence of signals and of their absence on the
    rate, but for what is the same at all rates · say float64[k]: how far signals are believed.
    """

    level: Array
    quiet: Array
    weight: Array
    silence: Array
    signal_evidence: Array
    silence_evidence: Array
    say: Array

    @property
    def evidence(self) -> Array:
        """Logarithms of the evidence of the signals since the last poll on the rate, float64[k, K]."""
        return self.signal_evidence - self.silence_evidence

    @property
    def either_way(self) -> Array:
        """The part of the evidence that does not depend on whether the page changed since the poll, float64[k, K]."""
        return self.evidence - self.weight + self.silence

    def take(self, places: NDArray[np.int64]) -> SignalReading:
        """Selects pages, in the given order."""
        return SignalReading(*(getattr(self, one.name)[places] for one in fields(self)))


@dataclass(frozen=True, slots=True)
class Window:
    """What one source says of k pages: float64[k, 1] each, recall and s 0 for pages that it does not speak for.

    false_rate: false signals, 1/s, of a page that changes once in `cycle` s; they grow with this `power` of the rate of
    changes · number: signals · covered: s of the gap of which it has told · late: s of the gap of which it told that
    are no news, as it tells late · early: share of its signals that tell of changes before the gap if they tell of any.
    """

    recall: Array
    false_rate: Array
    number: Array
    covered: Array
    late: Array
    early: Array
    power: Array
    cycle: Array

    def take(self, rows: NDArray[np.int64]) -> Window:
        """Selects pages, in the given order."""
        return Window(*(getattr(self, one.name)[rows] for one in fields(self)))

    def false_rates(self, rates: Array) -> Array:
        """Returns the false signals, 1/s, of pages with rates float64[k, K] of changes, 1/s."""
        if not self.power.any():
            return np.broadcast_to(self.false_rate, rates.shape)
        return np.asarray(self.false_rate * (rates * self.cycle) ** self.power)

    def weights(self, rates: Array, alone: Array | float = 1.0) -> tuple[Array, Array]:
        """Returns the weight of a signal at rates float64[k, K], 1/s: for a change since the poll, and for one before.

        By how much it raises -ln P(unchanged), and ln of how much more likely it is if the page has not changed than a
        false one alone (equation 4 of docs/signals.md). alone float64[k, 1]: the chance that others kept silent.
        """
        false, announced = self.false_rates(rates), self.recall * rates
        before = announced * self.early / false
        return np.log1p(announced * alone * (1.0 - self.early) / false / (1.0 + before)), np.log1p(before)


def windows(
    pairs: Pairs,
    sources: dict[int, LearnedSource],
    slots: NDArray[np.int64],
    gap: Array,
    now: float,
    clock: Clock | None = None,
) -> tuple[list[Window], Array]:
    """Returns the windows of the sources of slots int64[k], polled gap float64[k] s ago, and their say, float64[k].

    clock: on which gaps are measured, None: the ordinary one.
    """
    out, say = [], np.zeros(len(slots))
    levels = pairs.levels(slots)
    present = [pairs.source[row[row >= 0]] for row in levels]
    ids = np.unique(np.concatenate(present)).astype(np.int64) if present else np.empty(0, np.int64)
    table = np.array(
        [
            [s.recall, *s.false_signals, s.unread(now), s.late if s.learns_delay else 0.0, s.learned_cycle, s.log_odds]
            for s in (sources[i] for i in ids.tolist())
        ]
    )
    if clock is not None and len(ids):
        unread = np.concatenate([table[:, 3], np.maximum(table[:, 3] - table[:, 4], 0.0)])
        unread, told = clock(np.minimum(unread, _LONGEST_S), now).reshape(2, -1)
        table[:, 3], table[:, 4] = unread, unread - told
    for row in levels:
        there = row >= 0
        place = np.minimum(np.searchsorted(ids, pairs.source[row]), len(ids) - 1)
        recall, false_rate, power, unread, late, cycle, odds = table[place].T
        covered = np.where(there, np.maximum(gap - unread, 0.0), 0.0)
        number = np.where(there, pairs.number[row], 0.0)
        columns = (
            np.where(there, recall, 0.0),
            np.where(there, false_rate * pairs.own_false(row), false_rate),
            number,
            covered,
            np.where(there, np.maximum(gap - unread + late, 0.0) - covered, 0.0),
            np.where(number > 0, pairs.early[row] / np.where(number > 0, number, 1.0), 0.0),
            power,
            cycle,
        )
        out.append(Window(*(x[:, None] for x in columns)))
        believed = say_at(odds + pairs.log_odds[row])
        say = np.maximum(say, np.where(there, believed, 0.0))
    return out, say


def read(of: Sequence[Window], say: Array, quiet: Array, rates: Array, gap: Array) -> SignalReading:
    """Returns the reading of windows, for λτ float64[k, K] at rates float64[k, K], in 1/s.

    Sources miss changes independently. The silence of the others counts against a signal. Of the sources that gave a
    signal only the one with the largest weight counts: they may tell of one change. What pages that changed and others
    have in common, signals of changes before the poll and false ones, is evidence on the rate only.
    """
    safe = np.maximum(gap[:, None], 1e-300)
    missed = np.ones((len(gap), 1))
    for window in of:
        missed = missed * (1.0 - window.recall * np.minimum(window.covered / safe, 1.0))
    weight, each_rate = np.zeros_like(quiet), np.broadcast_to(rates, quiet.shape)
    more_signals, more_silence = np.zeros_like(quiet), np.zeros_like(quiet)
    for window in of:
        some = np.flatnonzero(window.number[:, 0] > 0)
        silent = np.ones((len(some), 1))
        for other in of:
            if other is not window:
                silent = silent * np.where(other.number[some] > 0, 1.0, 1.0 - other.recall[some])
        number, signalled = window.number[some], window.take(some)
        each, before = signalled.weights(each_rate[some], silent)
        weight[some] = np.maximum(weight[some], number * each)
        more_signals[some] += number * before
        if window.late.any():
            more_silence += window.recall * each_rate * window.late
        if window.power.any():
            more_signals[some] += number * np.log(signalled.false_rates(each_rate[some]) / signalled.false_rate)
            more_silence += (window.false_rates(each_rate) - window.false_rate) * (window.covered + window.late)
    silence = quiet * (1.0 - missed)
    level = quiet - silence + weight
    return SignalReading(level, quiet, weight, silence, weight + more_signals, silence + more_silence, say)


def informed(rows: Array, reading: SignalReading) -> Array:
    """Returns the beliefs float64[k, K] with the evidence of the signals since the last poll, given those without."""
    return normalised(rows, reading.say[:, None] * reading.evidence)


def normalised(rows: Array, logarithm: Array) -> Array:
    """Returns rows float64[k, K] times exp(logarithm), each with sum 1."""
    out = rows * np.exp(logarithm - logarithm.max(1, keepdims=True))
    return np.asarray(out / np.maximum(out.sum(1, keepdims=True), 1e-300))
