"""What signals say of pages at one moment: -ln P(unchanged) and the evidence on the rate, at each rate of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.signals.formulas import signal_weight
from pollerd.allocation.signals.pairs import Pairs
from pollerd.allocation.signals.quality import LearnedSource, say_at

Array = NDArray[np.float64]
Clock = Callable[[Array, float], Array]
"""Returns the advance (s) of a clock over the last float64[k] s before an epoch s."""
_LONGEST_S = 1e12


@dataclass(frozen=True, slots=True)
class SignalReading:
    """Of k pages, K rates.

    level float64[k, K]: L = -ln P(unchanged) · quiet float64[k, K]: λτ, L without signals · weight float64[k, K]: the
    part of L that signals add · silence float64[k, K]: the part that the silence of sources takes away · say
    float64[k]: how far signals are believed.
    """

    level: Array
    quiet: Array
    weight: Array
    silence: Array
    say: Array

    @property
    def evidence(self) -> Array:
        """Logarithms of the evidence of the signals since the last poll on the rate, float64[k, K]."""
        return self.weight - self.silence

    def take(self, places: NDArray[np.int64]) -> SignalReading:
        """Selects pages, in the given order."""
        return SignalReading(
            *(array[places] for array in (self.level, self.quiet, self.weight, self.silence, self.say))
        )


@dataclass(frozen=True, slots=True)
class Window:
    """What one source says of k pages: float64[k, 1] each, recall 0 for pages that it does not speak for.

    number: signals · covered: s of the gap of which it has told.
    """

    recall: Array
    false_rate: Array
    number: Array
    covered: Array

    def take(self, rows: NDArray[np.int64]) -> Window:
        """Selects pages, in the given order."""
        return Window(self.recall[rows], self.false_rate[rows], self.number[rows], self.covered[rows])


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
    table = np.array([[s.recall, s.false_rate, s.unread(now), s.log_odds] for s in (sources[i] for i in ids.tolist())])
    if clock is not None and len(ids):
        table[:, 2] = clock(np.minimum(table[:, 2], _LONGEST_S), now)
    for row in levels:
        there = row >= 0
        place = np.minimum(np.searchsorted(ids, pairs.source[row]), len(ids) - 1)
        recall, false_rate, unread, odds = table[place].T
        covered = np.maximum(gap - unread, 0.0)
        number = np.where(there, pairs.number[row], 0.0)
        out.append(Window(*(x[:, None] for x in (np.where(there, recall, 0.0), false_rate, number, covered))))
        believed = say_at(odds + pairs.log_odds[row])
        say = np.maximum(say, np.where(there, believed, 0.0))
    return out, say


def read(of: Sequence[Window], say: Array, quiet: Array, rates: Array, gap: Array) -> SignalReading:
    """Returns the reading of windows, for λτ float64[k, K] at rates float64[k, K], in 1/s.

    Sources miss changes independently. The silence of the others counts against a signal. Of the sources that gave a
    signal only the one with the largest weight counts: they may tell of one change.
    """
    safe = np.maximum(gap[:, None], 1e-300)
    missed = np.ones((len(gap), 1))
    for window in of:
        missed = missed * (1.0 - window.recall * np.minimum(window.covered / safe, 1.0))
    weight, each_rate = np.zeros_like(quiet), np.broadcast_to(rates, quiet.shape)
    for window in of:
        some = np.flatnonzero(window.number[:, 0] > 0)
        silent = np.ones((len(some), 1))
        for other in of:
            if other is not window:
                silent = silent * np.where(other.number[some] > 0, 1.0, 1.0 - other.recall[some])
        each = window.number[some] * signal_weight(
            each_rate[some], window.recall[some] * silent, window.false_rate[some]
        )
        weight[some] = np.maximum(weight[some], each)
    silence = quiet * (1.0 - missed)
    return SignalReading(quiet - silence + weight, quiet, weight, silence, say)


def informed(rows: Array, reading: SignalReading) -> Array:
    """Returns the beliefs float64[k, K] with the evidence of the signals since the last poll, given those without."""
    return normalised(rows, reading.say[:, None] * reading.evidence)


def normalised(rows: Array, logarithm: Array) -> Array:
    """Returns rows float64[k, K] times exp(logarithm), each with sum 1."""
    out = rows * np.exp(logarithm - logarithm.max(1, keepdims=True))
    return np.asarray(out / np.maximum(out.sum(1, keepdims=True), 1e-300))
