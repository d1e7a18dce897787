"""A window of rates on a logarithmic lattice, and the index tabulated over it.

The lattice is laid around the uniform cycle at the first poll taught. From then on the window slides along it by whole
cells as sites come and go or the budget changes, without interpolation: cells keep their meaning.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.index import g

HOPE = 10.0
"""Changes since the last poll up to which each more counts nearly as much as the first, where the rate is in doubt."""
CELLS = 24
"""Rates in the window: six decades at a ratio of 1.82."""
RATIO = math.log(1e6) / (CELLS - 1)
"""Natural logarithm of the ratio between neighbouring rates."""
SLOWEST_PER_CYCLE = 1 / 500
"""The slowest rate of the window, in changes per uniform cycle; the fastest is 10^6 times that."""
SLACK = 3
"""Cells by which the window may lag behind before it slides: a factor of 6 in the length of a cycle."""
SHORTEST_CYCLE_S, LONGEST_CYCLE_S = 1e-100, 1e100
"""Cycles count as these where they lie beyond: rates and times of any window are finite, and so are their products."""
FARTHEST_START = 250.0
"""No window's start is further from 0."""
FINE = 16
"""Rows of the index table per lattice step."""
_LOWEST, _HIGHEST = -30.0, 8.0 + RATIO * CELLS


def hope(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """`h(z) = HOPE log(1 + z / HOPE)` of the expected number z >= 0 of changes, any shape.

    In the doubt about a rate, E[g] counts all high rates alike and tries too little, the mean believes the highest and
    tries too much; the certainty equivalent under h lies between.
    """
    return np.asarray(HOPE * np.log1p(z / HOPE))


def g_of_hope(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(z) of the z with `hope(z) = value`, any shape; the error is below 1e-15 or so, not of g but of z."""
    z = HOPE * np.expm1(value / HOPE)
    gone = np.expm1(-z)
    return np.asarray(-gone - z * (1.0 + gone))


def start_for(cycle: float) -> float:
    """Start of a window that fits a uniform cycle in s: the natural logarithm of its slowest rate in 1/s."""
    return math.log(SLOWEST_PER_CYCLE / cycle)


def cells_between(start: float, end: float) -> int:
    """Whole cells by which a window at `start` must slide to come nearest to `end`."""
    return round((end - start) / RATIO)


def rates_from(start: float) -> NDArray[np.float64]:
    """The window's rates, float64[CELLS], 1/s, ascending; `start` the logarithm of the slowest."""
    return np.asarray(np.exp(start + RATIO * np.arange(CELLS)))


def slide(likelihood: NDArray[np.float32], prior: NDArray[np.float64], by: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows [k, CELLS] of likelihoods moved from window start s to s + by[k].

    Cells that leave the window are merged into its edge, by their prior mass; cells that enter continue the edge: of
    rates never entertained, the nearest one's likelihood is the best guess.
    """
    out = likelihood.copy()
    for shift in np.unique(by[by != 0]):
        rows = np.flatnonzero(by == shift)
        out[rows] = _slide_by(likelihood[rows], prior, int(np.clip(shift, 1 - CELLS, CELLS - 1)))
    return out


def _slide_by(block: NDArray[np.float32], prior: NDArray[np.float64], shift: int) -> NDArray[np.float32]:
    if shift < 0:
        return _slide_by(block[:, ::-1], prior[::-1], -shift)[:, ::-1]
    mass = prior[: shift + 1] / prior[: shift + 1].sum()
    edge = (block[:, : shift + 1] * mass).sum(1, keepdims=True)
    entering = np.repeat(block[:, -1:], shift, axis=1)
    return np.concatenate([edge, block[:, shift + 1 :], entering], axis=1).astype(np.float32)


def slide_mass(mass: NDArray[np.float64], shift: int) -> NDArray[np.float64]:
    """Probabilities [k, CELLS] moved from window start s to s + shift: what leaves gathers at the edge."""
    shift = int(np.clip(shift, 1 - CELLS, CELLS - 1))
    if shift == 0:
        return mass
    if shift < 0:
        return slide_mass(mass[:, ::-1], -shift)[:, ::-1]
    edge = mass[:, : shift + 1].sum(1, keepdims=True)
    return np.concatenate([edge, mass[:, shift + 1 :], np.zeros((len(mass), shift))], axis=1)


def _products() -> NDArray[np.float64]:
    """float64[rows, CELLS]: (slowest rate · elapsed) at exp(_LOWEST + row · RATIO / FINE), times each rate's ratio."""
    x = np.arange(_LOWEST, _HIGHEST, RATIO / FINE)[:, None] + RATIO * np.arange(CELLS)
    return np.exp(np.minimum(x, 300.0))


TABLE = g(_products()).astype(np.float32)
"""float32[rows, CELLS]: g of (slowest rate · elapsed) at exp(_LOWEST + row · RATIO / FINE), for each rate."""
HOPE_TABLE = hope(_products()).astype(np.float32)
"""The same of `hope`."""


def locate(
    slowest: float, elapsed: NDArray[np.float64], offset: NDArray[np.floating] | float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of TABLE, the fraction towards the next: elapsed float64[n] s, rates moved by `offset` float[n] cells."""
    with np.errstate(divide="ignore"):
        x = (np.log(slowest * elapsed) - _LOWEST) * (FINE / RATIO) + FINE * offset
    x = np.clip(x, 0.0, len(TABLE) - 1.001)
    row = x.astype(np.int64)
    return row, (x - row).astype(np.float32)
