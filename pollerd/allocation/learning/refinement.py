"""Where between the lattice's rates the rate of a much polled site lies.

A posterior over rates 1.8 apart ends on one of them, and then says that the truth is there, up to 1.35 times beside it
and surer than it can be. So a normal estimate of the logarithm of each site's rate goes along, by the scores of its own
polls; it speaks as far as the posterior is narrow. Choices and what is told of rates go by both.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.learning import grid
from pollerd.columns import lengthen

_NARROW = 0.8
"""Mass on the best cell and those beside it, from which on a posterior is narrow and its site's estimate speaks."""
_WITHIN = 1.0 / 12.0
"""Variance of a position within its cell."""
MOST_INFORMATION = 72.0
"""Per cell²: a standard deviation of 7 % of the rate. A rate that moves a little is followed for it."""
FARTHEST = 0.5
"""Cells at most by which a poll or an offset moves: beyond, another cell would be the best."""
_BESIDE = 3.0
"""An estimate so many cells beside the window is left: no poll brings it back to the best cell."""
_APART = 1.5
"""Cells between the estimate and the best cell, beyond which the rate has moved: it starts anew from there."""
_START_INFORMATION = 2.0
"""Per cell²: of the best cell alone."""
_PER_CELL = grid.RATIO**2

Score = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""As `likelihood.score`, of what was found, at positions float64[k] on the lattice; the information is above 0."""


class Refinement:
    """Estimates by slot: `position` float32[capacity] in cells from the window's start, `information` per cell².

    `offset` float16[capacity], cells (steps of the lattice) by which the rates of a site's posterior are to be moved,
    -1/2 to 1/2, as of its last poll.
    """

    def __init__(self) -> None:
        self.position = np.zeros(0, np.float32)
        self.information = np.zeros(0, np.float32)
        self.offset = np.zeros(0, np.float16)

    def grow(self, extra: int) -> None:
        """Room for so many slots more."""
        for name in ("position", "information", "offset"):
            lengthen(vars(self), name, extra, 0)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """The slots int64[k] start afresh."""
        self.position[slots] = 0.0
        self.information[slots] = 0.0
        self.offset[slots] = 0.0

    def slide(self, slots: NDArray[np.int64], by: int) -> None:
        """The window has moved by so many cells."""
        self.position[slots] -= by

    def of(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float16]]:
        """(position, information, offset) of slots int64[k], k each."""
        return self.position[slots], self.information[slots], self.offset[slots]

    def factor(self, part: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """What the lattice's rates are to be multiplied by for the k slots in `part`, float64[k]."""
        return np.asarray(np.exp(grid.RATIO * self.offset[part].astype(np.float64)))

    def put(
        self,
        slots: NDArray[np.int64],
        position: NDArray[np.floating],
        information: NDArray[np.floating],
        offset: NDArray[np.floating],
    ) -> None:
        """Puts back what `of` gave."""
        self.position[slots], self.information[slots], self.offset[slots] = position, information, offset

    def observe(
        self,
        slots: NDArray[np.int64],
        keep: NDArray[np.float64],
        posterior: NDArray[np.float64],
        score: Score,
    ) -> None:
        """Learns from polls of distinct slots int64[k].

        keep: float64[k], probability that the rate was not drawn anew since the last poll; posterior: float64[k, K]
        with these polls in it.
        """
        position, known = self.position[slots].astype(np.float64), self.information[slots] * keep
        slope, gained = score(np.clip(position, -_BESIDE, grid.CELLS - 1 + _BESIDE))
        known += _PER_CELL * gained
        position += np.clip(grid.RATIO * slope / known, -FARTHEST, FARTHEST)
        best = posterior.argmax(1)
        astray = (np.abs(position - best) > _APART) | (known < _START_INFORMATION)
        position = np.where(astray, best, position)
        known = np.where(astray, _START_INFORMATION, np.minimum(known, MOST_INFORMATION))
        self.put(slots, position, known, _offset(position, known, posterior))

    def interval(
        self, slots: NDArray[np.int64], posterior: NDArray[np.float64], level: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Central credible interval in positions on the lattice, (low, high), float64[k] each; 0 < level < 1."""
        peak, mass, lowest = _peak(posterior)
        below = (posterior * (np.arange(posterior.shape[1]) < lowest[:, None])).sum(1)
        offset, known = self.offset[slots].astype(np.float64), self.information[slots].astype(np.float64)
        sure = (mass >= _NARROW) & (known > 1.0 / _WITHIN)

        def end(of: float) -> NDArray[np.float64]:
            within = (of - below) / mass
            normal = sure & (within > 0) & (within < 1)
            reach = np.array([NormalDist().inv_cdf(x) for x in np.where(normal, within, 0.5).tolist()])
            refined = peak + reach / np.sqrt(np.maximum(known, 1.0 / _WITHIN))
            return np.where(normal, refined, _quantile(posterior, of)) + offset

        return end((1.0 - level) / 2.0), end((1.0 + level) / 2.0)


def _offset(
    position: NDArray[np.float64], information: NDArray[np.float64], posterior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Cells float64[k] from the peaks of posteriors float64[k, K] to the estimates, as far as these can be believed."""
    peak, mass, _ = _peak(posterior)
    off = (position - peak) * information / (information + 1.0 / _WITHIN)
    return np.where(mass >= _NARROW, np.clip(off, -FARTHEST, FARTHEST), 0.0)


def _quantile(posterior: NDArray[np.float64], of: float) -> NDArray[np.float64]:
    """Positions float64[k] below which the share `of` lies, the mass of each cell spread evenly over it."""
    below = np.cumsum(posterior, axis=1)
    cell = np.minimum((below < of).sum(1), posterior.shape[1] - 1)
    rows = np.arange(len(posterior))
    mass = posterior[rows, cell]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = (of - (below[rows, cell] - mass)) / mass
    return np.asarray(cell - 0.5 + np.clip(np.nan_to_num(part, nan=0.5), 0.0, 1.0))


def _peak(
    posterior: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Of the best cell and those beside it: mean position in cells and mass, float64[k], and the lowest, int64[k]."""
    rows, last = np.arange(len(posterior))[:, None], posterior.shape[1] - 1
    cells = posterior.argmax(1)[:, None] + np.array([-1, 0, 1])
    mass = np.where((cells >= 0) & (cells <= last), posterior[rows, np.clip(cells, 0, last)], 0.0)
    all_of_it = mass.sum(1)
    return (mass * cells).sum(1) / all_of_it, all_of_it, cells[:, 0]
