"""Pages that sources speak for at one moment, and what an index of the changes that wait for them has to tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.signals.pending import Pending
from pollerd.allocation.signals.reading import SignalReading, Window

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
