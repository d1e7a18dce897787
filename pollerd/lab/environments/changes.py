"""True changes of pages, drawn ahead in blocks of time and looked up poll by poll.

A page with change probability p per step changes as a Poisson process of `-ln(1 - p)` a step: over a gap of τ steps it
has changed at least once with probability `1 - (1 - p)^τ`, as in [A] 2. Changes do not depend on the polls, so compared
policies see the same web.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.lab.environments.zipf import Zipf

_EVENTS_A_BLOCK = 200_000
_SWITCH_SEED = 4_304
"""Of irregular switches: the same times in all webs of a `Zipf`, as those of one ranking are run side by side."""


class Changes(ABC):
    """Changes of `pages` pages, block by block. Time is in steps, from 0; all pages are known at 0."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.first_unseen = np.full(pages, math.inf)
        """Time of each page's first change since its last poll, from earlier blocks; inf: none."""
        self._unseen: Any = self.first_unseen.data  # single items are read and written far faster through this
        self._until = 0.0
        self._begin = self._at = self._end = [0] * pages
        self._times: list[float] = []

    @abstractmethod
    def block(self, begin: float) -> tuple[float, NDArray[np.float64], NDArray[np.int64]]:
        """Returns the block after `begin`: its end, all changes in it by page and time, and the number of each page."""

    def poll(self, page: int, now: float) -> float:
        """Polls a page: returns the time of its first change since its last poll, inf if there was none.

        now: steps, never before the last poll of any page.
        """
        while now > self._until:
            self._next()
        first, at, end = self._unseen[page], self._at[page], self._end[page]
        if at < end and self._times[at] <= now:
            if first == math.inf:
                first = self._times[at]
            self._at[page] = bisect_right(self._times, now, at, end)
        self._unseen[page] = math.inf
        return float(first)

    def every(self, until: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns all changes up to `until` of a web that nobody polled yet: pages int64[m] and times float64[m]."""
        pages, times, begin = [np.empty(0, np.int64)], [np.empty(0)], 0.0
        while begin < until:
            begin, at, counts = self.block(begin)
            before = at <= until
            pages.append(np.repeat(np.arange(self.pages), counts)[before])
            times.append(at[before])
        return np.concatenate(pages), np.concatenate(times)

    def unseen(self, now: float) -> NDArray[np.float64]:
        """Returns the time of the first change up to `now` that no poll has found, float64[pages]; inf: none."""
        while now > self._until:
            self._next()
        first = self._carried()
        return np.asarray(np.where(first <= now, first, math.inf))

    def _carried(self) -> NDArray[np.float64]:
        """Returns `first_unseen` including the current block."""
        at, end = np.array(self._at), np.array(self._end)
        times = np.array([*self._times, math.inf])
        upcoming = np.where(at < end, times[np.minimum(at, len(times) - 1)], math.inf)
        return np.asarray(np.minimum(self.first_unseen, upcoming))

    def _next(self) -> None:
        self.first_unseen[:] = self._carried()
        self._until, times, counts = self.block(self._until)
        ends = np.cumsum(counts)
        self._times, self._end = times.tolist(), ends.tolist()
        self._at = (ends - counts).tolist()


class Webs:
    """Changes of R webs whose blocks end at the same times, as those of one ranking do, polled all at once."""

    def __init__(self, webs: Sequence[Changes]) -> None:
        self._webs = webs
        self._first_place = np.cumsum([0, *(web.pages for web in webs[:-1])])
        places = sum(web.pages for web in webs)
        self._unseen = np.zeros(places, np.bool_)
        """Whether each place, the pages of all webs in order, changed in earlier blocks, unseen."""
        self._seen = self._ends = np.zeros(places, np.int64)
        self._begin = self._until = 0.0
        self._keys = np.zeros(0)
        """Sorted keys of the block's changes: place times the block's length, plus the time since the block's begin."""

    def poll(self, page: NDArray[np.int64], now: float) -> NDArray[np.bool_]:
        """Polls a page of each web, int64[R], as `Changes.poll` does: whether each has changed since its last poll."""
        while now > self._until:
            self._next()
        place = self._first_place + page
        upto = np.searchsorted(self._keys, place * (self._until - self._begin) + (now - self._begin), "right")
        detected = self._unseen[place] | (upto > self._seen[place])
        self._seen[place], self._unseen[place] = upto, False
        return np.asarray(detected)

    def _next(self) -> None:
        self._unseen |= self._ends > self._seen
        blocks = [web.block(self._until) for web in self._webs]
        (until,) = {end for end, _, _ in blocks}
        self._begin, self._until = self._until, until
        counts = np.concatenate([counted for _, _, counted in blocks])
        times = np.concatenate([times for _, times, _ in blocks])
        self._ends = np.cumsum(counts)
        self._seen = self._ends - counts
        self._keys = np.repeat(np.arange(len(counts)), counts) * (until - self._begin) + (times - self._begin)


@dataclass(frozen=True)
class RatePhase:
    """Steps from `begin` to `end` with constant rates, float64[n] changes per step."""

    begin: float
    end: float
    rate: NDArray[np.float64]


class ZipfChanges(Changes):
    """Changes of a Zipf ranking, with rank switches if it has any."""

    def __init__(self, zipf: Zipf, rng: np.random.Generator) -> None:
        super().__init__(zipf.pages)
        self._zipf, self._rng = zipf, rng
        self._page_of_rank = zipf.page_of_rank(rng)
        by_rank = zipf.by_rank
        self._rate_of_rank = -np.log1p(-by_rank)
        self._ladder = np.cumsum(by_rank) / by_rank.sum()
        self._block_steps = max(1.0, _EVENTS_A_BLOCK // (float(self._rate_of_rank.sum()) + zipf.pages / 1000))
        self._intervals = np.random.default_rng((_SWITCH_SEED, zipf.draw))
        self._switch_at = self._interval()
        self._rate = self.rates()

    def rates(self) -> NDArray[np.float64]:
        """Returns the true changes per step of each page in the current block, float64[n]."""
        rates = np.empty(self.pages)
        rates[self._page_of_rank] = self._rate_of_rank
        return rates

    def phases(self, until: float) -> Iterator[RatePhase]:
        """Yields the phases of a web without polls, up to `until`."""
        begin = 0.0
        while begin < until:
            end, _, _ = self.block(begin)
            yield RatePhase(begin, min(end, until), self._rate)
            begin = end

    def block(self, begin: float) -> tuple[float, NDArray[np.float64], NDArray[np.int64]]:
        if begin == self._switch_at:
            self._switch()
        end = min(begin + self._block_steps, self._switch_at)
        counts = self._rng.poisson(self._rate * (end - begin))
        pages = np.repeat(np.arange(self.pages), counts)
        times = self._rng.uniform(begin, end, len(pages))
        return end, times[np.lexsort((times, pages))], counts

    def _interval(self) -> float:
        """Returns the polls from one switch to the next; inf without switches."""
        every = self._zipf.switch_every
        return float(np.ceil(self._intervals.exponential(every)) if self._zipf.irregular else every or math.inf)

    def _switch(self) -> None:
        """Swaps a page drawn in proportion to its p with the next in rank; the last has none after it."""
        self._switch_at += self._interval()
        rank = int(np.searchsorted(self._ladder, self._rng.random()))
        if rank < self.pages - 1:
            row = self._page_of_rank
            row[rank], row[rank + 1] = row[rank + 1], row[rank]
            self._rate = self.rates()
