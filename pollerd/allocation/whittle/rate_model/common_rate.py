"""The hypothesis that all pages change at one rate, held against what is believed of each.

Where pages differ little, or nobody can tell yet how, round robin is best: whoever chases the pages whose first poll
found a change loses to it. So both predict every poll of a page that was polled before, and the index is mixed by how
well they did: a page goes by its own belief as far as such beliefs have proved themselves. One that fell far behind
keeps a small lead to make good, so that a world that comes to differ later is noticed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.whittle.rate_model.grid import CELLS, Lattice

LOG_PRIOR_ODDS = 3.0
"""Logarithmic odds at the start against beliefs of single pages, where there are `MANY_SITES`."""
MANY_SITES = 100
"""With fewer the doubt is as much less: to dispel it takes as many polls, so more of each page."""
MOST_BEHIND, MOST_AHEAD = 6.0, 30.0
"""They never fall further behind, nor get further ahead."""
_TELLING_SITES = 1024
"""With more sites not every poll is taken in, but so many a cycle."""
_PER_CELL = 4
"""Rates looked at for each of the window: with a single one for all, a window's rate would often be far off."""
_RATES = _PER_CELL * (CELLS - 1) + 1
_CELLS = np.arange(_RATES) / _PER_CELL
_START_WIDTH_EFOLDS = 1.5
_SAME_WEIGHT = 0.05
_CERTAIN = 0.999
_FLOOR = -600.0


class CommonRate:
    """One rate for all, and the weight of its rivals.

    `log_posterior` float64[_RATES] over finer rates of the window; `log_bayes_factor`: by how much polls favour the
    beliefs of single pages over one rate for all. The index goes by two values that move in steps: `weight` (0 to 1) of
    those beliefs, and `cells` float64[CELLS], the posterior over the window's rates.
    """

    def __init__(self, lattice: Lattice, cycle: float) -> None:
        self.start(lattice, cycle)
        self.log_bayes_factor = 0.0
        self.weight = _weight(-LOG_PRIOR_ODDS)
        self.polls = 0

    def start(self, lattice: Lattice, cycle: float) -> None:
        """Starts around one change per uniform cycle (s)."""
        x = np.log(_rates(lattice) * cycle)
        self.log_posterior = -0.5 * (x / _START_WIDTH_EFOLDS) ** 2
        self.refresh()

    def observe(
        self,
        lattice: Lattice,
        gap: NDArray[np.float64],
        changed: NDArray[np.bool_],
        unchanged: NDArray[np.float64],
        known: NDArray[np.bool_],
        sites: int,
    ) -> bool:
        """Takes in k polls in order; says whether `weight` moved.

        lattice: the window's rates; gap float64[k] s; changed bool[k]; unchanged float64[k], what the
        pages' beliefs gave for no change; known bool[k]: polled before. Only those compare: of the others a belief is
        what all have in common. `sites`: how many there are.
        """
        before = self.weight
        log_odds = LOG_PRIOR_ODDS * min(1.0, sites / MANY_SITES)
        self._weigh(self.log_bayes_factor - log_odds)
        every = -(-sites // _TELLING_SITES)
        some = np.arange(-self.polls % every, len(gap), every)
        self.polls += len(gap)
        if not some.size:
            return self.weight != before
        gap, changed, unchanged, known = gap[some], changed[some], unchanged[some], known[some]
        mean = gap[:, None] * _rates(lattice)
        with np.errstate(divide="ignore"):
            like = np.where(changed[:, None], np.log(-np.expm1(-mean)), -mean)
        like[gap <= 0] = 0.0
        after = self.log_posterior + np.cumsum(np.maximum(like, _FLOOR), axis=0)
        total = np.logaddexp.reduce(np.concatenate([self.log_posterior[None], after]), axis=1)
        self.log_posterior = after[-1] - total[-1]
        believed = np.log(np.maximum(np.where(changed, 1.0 - unchanged, unchanged), 1e-9))
        gains = (believed - np.diff(total))[known & (gap > 0)]
        for gain in gains.tolist():  # poll by poll, so that batches end where single polls do
            self.log_bayes_factor = min(
                max(self.log_bayes_factor + gain, log_odds - MOST_BEHIND), log_odds + MOST_AHEAD
            )
            self._weigh(self.log_bayes_factor - log_odds)
        return self.weight != before

    def _weigh(self, odds: float) -> None:
        """Moves `weight` to what these logarithmic odds make, if that is a step."""
        weight = _weight(odds)
        if abs(weight - self.weight) > _SAME_WEIGHT or weight == 1.0:
            self.weight = weight

    def refresh(self) -> None:
        """Brings `cells` up to date: each finer rate's share goes to its two neighbours in the window."""
        fine = np.exp(self.log_posterior - np.logaddexp.reduce(self.log_posterior))
        near = 1.0 - np.abs(_CELLS[:, None] - np.arange(CELLS))
        self.cells = fine @ np.maximum(near, 0.0)

    def move(self, old: Lattice, new: Lattice) -> None:
        """Another window was laid: rates that enter continue the edge."""
        self.log_posterior = np.interp(old.cell(old.place(new, new.between(_CELLS))), _CELLS, self.log_posterior)
        self.refresh()

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for storage."""
        numbers = np.array([self.log_bayes_factor, self.weight])
        counter = np.array([self.polls], np.int64)
        cells = {"common_rate_posterior": self.log_posterior, "common_rate_cells": self.cells}
        return {**cells, "common_rate": numbers, "common_rate_polls": counter}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Puts back what `state` gave."""
        self.log_posterior, self.cells = arrays["common_rate_posterior"], arrays["common_rate_cells"]
        self.log_bayes_factor, self.weight = (float(x) for x in arrays["common_rate"])
        self.polls = int(arrays["common_rate_polls"][0])


def _rates(lattice: Lattice) -> NDArray[np.float64]:
    return lattice.at(lattice.between(_CELLS))


def _weight(odds: float) -> float:
    """The weight that beliefs of single pages have by logarithmic odds; nearly certain is certain."""
    weight = 1.0 / (1.0 + math.exp(-odds))
    return weight if weight < _CERTAIN else 1.0
