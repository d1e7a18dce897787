"""A window of rates on a logarithmic lattice, and the index tabulated over it.

24 rates cover all plausible pages, from one change a minute to one in five years, and all that a budget can resolve, up
to 2,000 changes in a uniform cycle. Rates that matter for choices, from one change in 500 cycles on, are dense, each
about twice the one before; slower ones, if the window goes far below, are widely spaced. The window is replaced when
sites or budget change so much that it no longer fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import g
from pollerd.errors import InvalidValueError

LOG_UTILITY = 10.0
"""Number of changes since the last poll up to which each counts nearly as much as the first, for uncertain rates."""
CELLS = 24
"""Number of rates in the window."""
SLOWEST_PER_CYCLE, FASTEST_PER_CYCLE = 1 / 500, 2000.0
"""Range that the window covers at least, in changes per uniform cycle."""
FASTEST_PER_POLL = 4.0
"""Upper bound of the fastest rate, in changes per poll of any site."""
SLOWEST_PER_S, FASTEST_PER_S = 1 / (5 * 365.25 * 86_400), 1 / 60
"""Range that the window covers at least, in changes per second, for any length of the cycle."""
WIDE = 4
"""Largest number of widely spaced rates, below SLOWEST_PER_CYCLE."""
SLACK = 3.0
"""Places by which an end of the window may be off before the window is replaced."""
SHORTEST_CYCLE_S, LONGEST_CYCLE_S = 1e-100, 1e100
"""Bounds of cycles, so that rates and times of any window, and their products, are finite."""
FARTHEST_START, LONGEST_STEP, WIDEST = 250.0, 30.0, 250.0
"""Bounds of a window's start, step and `wide`."""
_ROW = 0.0375
"""Logarithm of the ratio between neighbouring gaps of an index table."""
_LOWEST, _BEYOND = -30.0, 8.0
"""Logarithms of the expected changes at the slowest rate in the table's first row, at the fastest in its last."""
_LEAST = 2.0**-24
"""Smallest likelihood."""
_MOST = 300.0
"""Upper bound of logarithms, so that their exponentials are finite."""
_ALIGNED = 1e-4
"""Positions this near to a cell count as on it."""
_SPARE = 1e-3
"""Relative margin of a window's range, because its numbers are rounded."""


@dataclass(frozen=True)
class Lattice:
    """CELLS rates in 1/s, and places between them: a place x is the rate exp(start + step x).

    The slowest rate is at place 0, each of the next WIDE is `wide` (1 or more) places further than the one before, the
    others 1 place. So `step` is the natural logarithm of the ratio of dense neighbours.
    """

    start: float
    step: float
    wide: float = 1.0

    @cached_property
    def places(self) -> NDArray[np.float64]:
        """Places of the rates, float64[CELLS], ascending from 0."""
        return np.cumsum(np.r_[0.0, np.full(WIDE, self.wide), np.ones(CELLS - 1 - WIDE)])

    @cached_property
    def rates(self) -> NDArray[np.float64]:
        """The window's rates, float64[CELLS], 1/s, ascending."""
        return self.at(self.places)

    def at(self, place: NDArray[np.floating]) -> NDArray[np.float64]:
        """Returns rates (1/s) at places of any shape."""
        return np.asarray(np.exp(self.start + self.step * place))

    def place(self, of: Lattice, there: NDArray[np.floating]) -> NDArray[np.float64]:
        """Converts places on another lattice to this one, any shape."""
        return np.asarray((of.start - self.start + of.step * there) / self.step)

    def between(self, cells: NDArray[np.floating]) -> NDArray[np.float64]:
        """Returns places of cells, counted from 0, and of positions between them, any shape."""
        return np.asarray(np.interp(cells, np.arange(CELLS), self.places))

    def cell(self, place: NDArray[np.floating]) -> NDArray[np.float64]:
        """Returns cells, and positions between them, at places of any shape; the edge beyond the window."""
        found = np.interp(place, self.places, np.arange(CELLS))
        whole = np.rint(found)
        return np.asarray(np.where(np.abs(found - whole) < _ALIGNED, whole, found))

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Places half way between the rates, and half a place beyond the first and the last, float64[CELLS + 1]."""
        middle = (self.places[1:] + self.places[:-1]) / 2
        return np.asarray(np.r_[-0.5, middle, self.places[-1] + 0.5])

    def fits(self, wanted: Lattice) -> bool:
        """Returns whether both ends and the start of the dense part are within the slack of the wanted ones."""
        corners = [0, WIDE, CELLS - 1]
        apart = self.place(wanted, wanted.places[corners]) - self.places[corners]
        return bool((np.abs(apart) <= SLACK).all())


def lattice_for(cycle: float, sites: int) -> Lattice:
    """Returns the window for this number of sites, polled once in a uniform cycle in s.

    Its numbers are rounded as in stored rows, and its range is slightly larger to allow for that. Dense parts with the
    same step share their rates where they overlap: they keep their meaning with another budget.
    """
    slowest = math.log(min(SLOWEST_PER_CYCLE / cycle, SLOWEST_PER_S))
    fastest = math.log(max(min(FASTEST_PER_CYCLE, FASTEST_PER_POLL * max(sites, 1)) / cycle, FASTEST_PER_S))
    step = _rounded_up((fastest - math.log(SLOWEST_PER_CYCLE / cycle)) / (CELLS - 1 - WIDE))
    dense = step * math.ceil(math.log(SLOWEST_PER_CYCLE / cycle) / step)
    wide = _rounded_up((dense - slowest) / WIDE / step)
    if wide > 1.0:
        return Lattice(float(np.float32(dense - step * WIDE * wide)), step, wide)
    start = float(np.float32(slowest - _SPARE))
    return Lattice(start, _rounded_up((fastest - start) / (CELLS - 1)))


def _rounded_up(number: float) -> float:
    return float(np.float16(number * (1.0 + _SPARE)))


def log_utility(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `h(z) = LOG_UTILITY log(1 + z / LOG_UTILITY)` of the expected number z >= 0 of changes, any shape.

    For an uncertain rate, E[g] counts all high rates alike and explores too little, the mean is dominated by the
    highest and explores too much; the certainty equivalent under h lies between.
    """
    return np.asarray(LOG_UTILITY * np.log1p(z / LOG_UTILITY))


def index_of_certainty_equivalent(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns g(z) of the z with `log_utility(z) = value`, any shape; the error is below 1e-15 or so of z, not of g."""
    z = LOG_UTILITY * np.expm1(value / LOG_UTILITY)
    gone = np.expm1(-z)
    return np.asarray(-gone - z * (1.0 + gone))


def window_of(numbers: NDArray[np.float64]) -> Lattice:
    """Returns the window with stored start, step and `wide`, float64[3]; raises InvalidValueError out of bounds."""
    start, step, wide = (float(x) for x in numbers)
    if not (abs(start) <= FARTHEST_START and 0 < step <= LONGEST_STEP and 1 <= wide <= WIDEST):
        allowed = f"a window that starts within {FARTHEST_START:g} and steps by up to {LONGEST_STEP:g}"
        raise InvalidValueError("shared_state", allowed, (start, step, wide))
    return Lattice(start, step, wide)


def move_likelihood(
    rows: NDArray[np.float32], prior: NDArray[np.float64], old: Lattice, new: Lattice
) -> NDArray[np.float32]:
    """Converts rows [k, CELLS] of likelihoods from one window to another.

    Between the cells of the old window their logarithms are interpolated by the rate, which is exact for polls without
    a change. Cells outside the new window are merged into its edge, by their prior mass [CELLS]; new cells get the
    value at the edge: for rates not considered before, the nearest likelihood is the best guess.
    """
    place, cells = old.cell(old.place(new, new.places)), np.arange(CELLS)
    low = np.minimum(place.astype(np.int64), CELLS - 2)
    above = old.step * (old.between(place) - old.places[low])
    share = np.expm1(np.minimum(above, _MOST)) / np.expm1(np.minimum(old.step * np.diff(old.places)[low], _MOST))
    logarithm = np.log(np.maximum(rows, np.float32(_LEAST)))
    out = np.exp(logarithm[:, low] + (logarithm[:, low + 1] - logarithm[:, low]) * share.astype(np.float32))
    for edge, leaving in ((0, cells <= place[0]), (CELLS - 1, cells >= place[-1])):
        out[:, edge] = rows @ (np.where(leaving, prior, 0.0) / prior[leaving].sum()).astype(np.float32)
    return np.asarray(out)


def move_mass(mass: NDArray[np.float64], old: Lattice, new: Lattice) -> NDArray[np.float64]:
    """Converts probabilities [k, CELLS] from one window to another: mass outside goes to the edge."""
    return np.asarray(mass @ _between_cells(new.cell(new.place(old, old.places))))


def _between_cells(place: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns weights float64[k, CELLS] of the cells beside positions float64[k], counted from 0."""
    apart = np.abs(place[:, None] - np.arange(CELLS))
    return np.maximum(1.0 - apart, 0.0)


@lru_cache(maxsize=16)
def index_table(step: float, wide: float, objective: str) -> NDArray[np.float32]:
    """Returns float32[rows, CELLS]: the utility of the changes expected at each rate, by `locate`'s rows, read only.

    For a window with this step and `wide`: `log_utility` under `changes`, else g; under `freshness` times the amplitude
    1 / λ, in units of the slowest rate's.
    """
    apart = step * Lattice(0.0, step, wide).places
    x = np.arange(_LOWEST, _BEYOND + apart[-1], _ROW)[:, None] + apart
    expected = np.exp(np.minimum(x, _MOST))
    table = log_utility(expected) if objective == "changes" else g(expected)
    if objective == "freshness":
        table *= np.exp(-apart)
    out = table.astype(np.float32)
    out.flags.writeable = False
    return out


def locate(
    lattice: Lattice, rows: int, elapsed: NDArray[np.float64], offset: NDArray[np.floating] | float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Returns the row of a table with `rows` rows for each gap, and the fraction towards the next row.

    elapsed float64[n] s, rates moved by `offset` float[n] places.
    """
    with np.errstate(divide="ignore"):
        x = (np.log(elapsed) + (lattice.start - _LOWEST)) / _ROW + (lattice.step / _ROW) * offset
    x = np.clip(x, 0.0, rows - 1.001)
    row = x.astype(np.int64)
    return row, (x - row).astype(np.float32)
