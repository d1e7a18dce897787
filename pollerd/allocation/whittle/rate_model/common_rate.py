"""Common rate: the hypothesis that all pages change at one rate (complete pooling), compared with individual beliefs.

If pages differ little, or it is not known yet how, round robin is best, and preferring the pages whose first poll found
a change is worse. So both hypotheses predict every poll of a page that was polled before, and the index is mixed by
their predictive likelihoods: individual beliefs count as far as they have predicted better. A hypothesis never falls
far behind, so that differences that arise later are detected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.signals.evidence import SignalEvidence
from pollerd.allocation.whittle.rate_model.grid import CELLS, Lattice
from pollerd.allocation.whittle.rate_model.likelihood import log_likelihood

LOG_PRIOR_ODDS = 3.0
"""Initial log odds against individual beliefs, with `MANY_SITES` or more."""
MANY_SITES = 100
"""With fewer sites the log odds are reduced in proportion: overcoming them takes as many polls, thus more per page."""
MOST_BEHIND, MOST_AHEAD = 6.0, 30.0
"""Bounds of the log Bayes factor relative to the log odds, behind and ahead."""
_TELLING_SITES = 1024
"""With more sites only this many polls per cycle are used."""
_PER_CELL = 4
"""Rates considered per rate of the window: a single common rate would often be far from the window's rates."""
_RATES = _PER_CELL * (CELLS - 1) + 1
_CELLS = np.arange(_RATES) / _PER_CELL
_START_WIDTH_EFOLDS = 1.5
_SAME_WEIGHT = 0.05
_CERTAIN = 0.999
_FLOOR = -600.0


@dataclass(frozen=True, slots=True)
class SignalledPolls:
    """Polls before which sources may have spoken.

    believed float64[m]: logarithm of the factor by which signals raise the individual beliefs' probability of what
    they found.
    """

    evidence: SignalEvidence
    polls: EvidenceBatch
    believed: NDArray[np.float64]

    def take(self, rows: NDArray[np.int64]) -> SignalledPolls:
        """Selects polls of the batch, in ascending order."""
        of = np.isin(self.evidence.rows, rows)
        return SignalledPolls(self.evidence.take(rows), self.polls.take(rows), self.believed[of])

    def log_likelihood(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns what signals add at rates [1, J], float64[m, J]."""
        return self.evidence.log_likelihood(rates, self.polls)


class CommonRate:
    """One common rate, and the weight of individual beliefs.

    `log_posterior` float64[_RATES] over finer rates of the window; `log_bayes_factor` of individual beliefs over the
    common rate. The index uses two values that move in steps: `weight` (0 to 1) of individual beliefs, and `cells`
    float64[CELLS], the posterior over the window's rates.
    """

    def __init__(self, lattice: Lattice, cycle: float) -> None:
        self.start(lattice, cycle)
        self.log_bayes_factor = 0.0
        self.weight = _weight(-LOG_PRIOR_ODDS)
        self.polls = 0

    def start(self, lattice: Lattice, cycle: float) -> None:
        """Resets the posterior to around one change per uniform cycle (s)."""
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
        signals: SignalledPolls | None = None,
    ) -> bool:
        """Learns from k polls in order; returns whether `weight` moved.

        lattice: the window's rates; gap float64[k] s; changed bool[k]; unchanged float64[k], the individual beliefs'
        probability of no change; known bool[k]: polled before. Only those are compared: the belief about other pages is
        the shared prior. `sites`: number of sites. signals: what sources said before some of the polls.
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
        like = log_likelihood(mean, changed)
        if signals is not None:
            signals = signals.take(some)
            like[signals.evidence.rows] += signals.log_likelihood(_rates(lattice)[None])
        like[gap <= 0] = 0.0
        after = self.log_posterior + np.cumsum(np.maximum(like, _FLOOR), axis=0)
        total = np.logaddexp.reduce(np.concatenate([self.log_posterior[None], after]), axis=1)
        self.log_posterior = after[-1] - total[-1]
        believed = np.log(np.maximum(np.where(changed, 1.0 - unchanged, unchanged), 1e-9))
        if signals is not None:
            believed[signals.evidence.rows] += signals.believed
        gains = (believed - np.diff(total))[known & (gap > 0)]
        for gain in gains.tolist():  # poll by poll, so that batches and single polls give the same result
            self.log_bayes_factor = min(
                max(self.log_bayes_factor + gain, log_odds - MOST_BEHIND), log_odds + MOST_AHEAD
            )
            self._weigh(self.log_bayes_factor - log_odds)
        return self.weight != before

    def _weigh(self, odds: float) -> None:
        """Sets `weight` from these log odds, if the change is large enough."""
        weight = _weight(odds)
        if abs(weight - self.weight) > _SAME_WEIGHT or weight == 1.0:
            self.weight = weight

    def refresh(self) -> None:
        """Updates `cells`: each finer rate's share goes to its two neighbours in the window."""
        fine = np.exp(self.log_posterior - np.logaddexp.reduce(self.log_posterior))
        near = 1.0 - np.abs(_CELLS[:, None] - np.arange(CELLS))
        self.cells = fine @ np.maximum(near, 0.0)

    def move(self, old: Lattice, new: Lattice) -> None:
        """Converts to another window; new rates get the value at the edge."""
        self.log_posterior = np.interp(old.cell(old.place(new, new.between(_CELLS))), _CELLS, self.log_posterior)
        self.refresh()

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage."""
        numbers = np.array([self.log_bayes_factor, self.weight])
        counter = np.array([self.polls], np.int64)
        cells = {"common_rate_posterior": self.log_posterior, "common_rate_cells": self.cells}
        return {**cells, "common_rate": numbers, "common_rate_polls": counter}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `state`."""
        self.log_posterior, self.cells = arrays["common_rate_posterior"], arrays["common_rate_cells"]
        self.log_bayes_factor, self.weight = (float(x) for x in arrays["common_rate"])
        self.polls = int(arrays["common_rate_polls"][0])


@lru_cache(maxsize=16)
def _rates(lattice: Lattice) -> NDArray[np.float64]:
    """Returns the finer rates of the window (1/s), float64[_RATES], read only."""
    rates = lattice.at(lattice.between(_CELLS))
    rates.flags.writeable = False
    return rates


def _weight(odds: float) -> float:
    """Returns the weight of individual beliefs at these log odds; nearly 1 becomes 1."""
    weight = 1.0 / (1.0 + math.exp(-odds))
    return weight if weight < _CERTAIN else 1.0
