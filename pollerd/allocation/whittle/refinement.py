"""Refinement of the rate of a frequently polled site, between the lattice's rates.

A posterior over rates with a ratio of about two concentrates on one of them, and is then overconfident and off by a
factor of up to 1.6. So a normal estimate of the logarithm of each site's rate is updated with the scores of its polls;
it is used as far as the posterior is narrow. Choices and reported rates use both.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.whittle import grid
from pollerd.columns import lengthen

_NARROW = 0.8
"""Mass on the best cell and its neighbours above which a posterior is narrow and the estimate is used."""
_BESIDE_PEAK = 1.1
"""Distance in places within which cells are neighbours of the best one: widely spaced ones are not."""
_WITHIN = 1.0 / 12.0
"""Variance of a position within its cell, of width 1."""
MAX_INFORMATION = 200.0
"""Upper bound, per e-fold²: a standard deviation of 7 % of the rate. Lets the estimate follow small drifts."""
FARTHEST = 0.5
"""Largest step of a poll and largest offset, in places: beyond, another cell would be the best."""
_BESIDE = 3.0
"""An estimate this many places outside the window stays there: no poll brings it back to the best cell."""
_APART = 1.5
"""Places between the estimate and the best cell beyond which the estimate restarts at that cell."""
_START_INFORMATION = 2.0
"""Information per place² of the best cell alone."""

Score = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Computes `grid.score` of the polls at positions float64[k] on the lattice; the information is above 0."""


class RateRefinement:
    """Estimates by slot: `position` float32[capacity], a place on the lattice, `information` per place².

    `offset` float16[capacity], places (steps of the lattice) by which the rates of a site's posterior are to be moved,
    -1/2 to 1/2, as of its last poll.
    """

    def __init__(self) -> None:
        self.position = np.zeros(0, np.float32)
        self.information = np.zeros(0, np.float32)
        self.offset = np.zeros(0, np.float16)

    def grow(self, extra: int) -> None:
        """Grows by `extra` slots."""
        for name in ("position", "information", "offset"):
            lengthen(vars(self), name, extra, 0)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Resets slots int64[k]."""
        self.position[slots] = 0.0
        self.information[slots] = 0.0
        self.offset[slots] = 0.0

    def move(self, slots: NDArray[np.int64], old: grid.Lattice, new: grid.Lattice) -> None:
        """Converts the estimates of slots int64[k] to another window."""
        self.put(slots, *moved(*self.of(slots), old, new))

    def of(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float16]]:
        """Returns (position, information, offset) of slots int64[k], k each."""
        return self.position[slots], self.information[slots], self.offset[slots]

    def update(self, slots: NDArray[np.int64], posterior: NDArray[np.float64], lattice: grid.Lattice) -> None:
        """Sets the offsets of distinct slots int64[k] for their posteriors float64[k, K] over another window."""
        position, known = (of[slots].astype(np.float64) for of in (self.position, self.information))
        self.offset[slots] = _offset(position, known, posterior, lattice)

    def factor(self, part: slice | NDArray[np.int64], lattice: grid.Lattice) -> NDArray[np.float64]:
        """Returns the factor on the lattice's rates for the k slots in `part`, float64[k]."""
        return np.asarray(np.exp(lattice.step * self.offset[part].astype(np.float64)))

    def put(
        self,
        slots: NDArray[np.int64],
        position: NDArray[np.floating],
        information: NDArray[np.floating],
        offset: NDArray[np.floating],
    ) -> None:
        """Restores the output of `of`."""
        self.position[slots], self.information[slots], self.offset[slots] = position, information, offset

    def observe(
        self,
        slots: NDArray[np.int64],
        keep: NDArray[np.float64],
        posterior: NDArray[np.float64],
        lattice: grid.Lattice,
        score: Score,
    ) -> None:
        """Learns from polls of distinct slots int64[k].

        keep: float64[k], probability that the rate was not redrawn since the last poll; posterior: float64[k, K] after
        these polls.
        """
        position, known = self.position[slots].astype(np.float64), self.information[slots] * keep
        slope, gained = score(_between(position, -_BESIDE, lattice.places[-1] + _BESIDE))
        known += lattice.step**2 * gained
        position += _between(lattice.step * slope / known, -FARTHEST, FARTHEST)
        best = lattice.places[posterior.argmax(1)]
        astray = (np.abs(position - best) > _APART) | (known < _START_INFORMATION)
        position = np.where(astray, best, position)
        known = np.where(astray, _START_INFORMATION, np.minimum(known, MAX_INFORMATION * lattice.step**2))
        self.put(slots, position, known, _offset(position, known, posterior, lattice))

    def interval(
        self, slots: NDArray[np.int64], posterior: NDArray[np.float64], level: float, lattice: grid.Lattice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns central credible intervals in places on the lattice, (low, high), float64[k] each; 0 < level < 1."""
        peak, mass, lowest = _peak(posterior, lattice)
        below = (posterior * (np.arange(posterior.shape[1]) < lowest[:, None])).sum(1)
        offset, known = self.offset[slots].astype(np.float64), self.information[slots].astype(np.float64)
        sure = (mass >= _NARROW) & (known > 1.0 / _WITHIN)

        def end(of: float) -> NDArray[np.float64]:
            within = (of - below) / mass
            normal = sure & (within > 0) & (within < 1)
            reach = np.array([NormalDist().inv_cdf(x) for x in np.where(normal, within, 0.5).tolist()])
            refined = peak + reach / np.sqrt(np.maximum(known, 1.0 / _WITHIN))
            return np.where(normal, refined, _quantile(posterior, of, lattice)) + offset

        return end((1.0 - level) / 2.0), end((1.0 + level) / 2.0)


def moved(
    position: NDArray[np.float32],
    information: NDArray[np.float32],
    offset: NDArray[np.float16],
    old: grid.Lattice,
    new: grid.Lattice,
) -> tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.floating]]:
    """Converts (position, information, offset), k each, from one window to another."""
    ratio = new.step / old.step
    information = information * np.float32(ratio**2)
    return new.place(old, position.astype(np.float64)), information, np.clip(offset / ratio, -FARTHEST, FARTHEST)


def _offset(
    position: NDArray[np.float64],
    information: NDArray[np.float64],
    posterior: NDArray[np.float64],
    lattice: grid.Lattice,
) -> NDArray[np.float64]:
    """Returns places float64[k] from the peaks of posteriors float64[k, K] to the estimates, precision-weighted."""
    peak, mass, _ = _peak(posterior, lattice)
    off = (position - peak) * information / (information + 1.0 / _WITHIN)
    return np.where(mass >= _NARROW, _between(off, -FARTHEST, FARTHEST), 0.0)


def _between(values: NDArray[Any], least: float, most: float) -> NDArray[Any]:
    """Returns `np.clip` of the values, whose preparations take longer than clipping a few."""
    return np.asarray(np.minimum(np.maximum(values, least), most))


def _quantile(posterior: NDArray[np.float64], of: float, lattice: grid.Lattice) -> NDArray[np.float64]:
    """Returns places float64[k] of the quantile `of`, with the mass of each cell spread evenly over it."""
    below = np.cumsum(posterior, axis=1)
    cell = np.minimum((below < of).sum(1), posterior.shape[1] - 1)
    rows = np.arange(len(posterior))
    mass = posterior[rows, cell]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = (of - (below[rows, cell] - mass)) / mass
    low, high = lattice.edges[cell], lattice.edges[cell + 1]
    return np.asarray(low + np.clip(np.nan_to_num(part, nan=0.5), 0.0, 1.0) * (high - low))


def _peak(
    posterior: NDArray[np.float64], lattice: grid.Lattice
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Returns mean place and mass, float64[k], of the best cell and its neighbours, and the lowest cell, int64[k]."""
    rows, last = np.arange(len(posterior))[:, None], posterior.shape[1] - 1
    cells = posterior.argmax(1)[:, None] + np.array([-1, 0, 1])
    inside = _between(cells, 0, last)
    places = lattice.places[inside]
    beside = (cells == inside) & (np.abs(places - places[:, 1:2]) < _BESIDE_PEAK)
    mass = np.where(beside, posterior[rows, inside], 0.0)
    all_of_it = mass.sum(1)
    return (mass * places).sum(1) / all_of_it, all_of_it, cells[:, 0]
