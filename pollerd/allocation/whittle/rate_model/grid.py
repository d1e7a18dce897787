"""A window of rates on a logarithmic lattice, and the index tabulated over it.

The window holds whatever a page may do, from one change a minute to one in five years, and whatever a budget may find
out, up to 2,000 changes in a uniform cycle, with 24 rates. Where choices are made, from one change in 500 cycles on,
they stand dense, about twice as fast each as the one before; below that, if the window goes far below it, wide apart.
It is laid anew when sites come and go or the budget changes so much that it no longer fits.
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
"""Changes since the last poll up to which each more counts nearly as much as the first, where the rate is in doubt."""
CELLS = 24
"""Rates in the window."""
SLOWEST_PER_CYCLE, FASTEST_PER_CYCLE = 1 / 500, 2000.0
"""Rates that the window reaches at least, in changes per uniform cycle, ..."""
FASTEST_PER_POLL = 4.0
"""... the fastest no more than so many for each poll of any site, ..."""
SLOWEST_PER_S, FASTEST_PER_S = 1 / (5 * 365.25 * 86_400), 1 / 60
"""... and in changes per second, whatever the length of a cycle."""
WIDE = 4
"""So many rates at most stand wide apart, below SLOWEST_PER_CYCLE."""
SLACK = 3.0
"""Places by which an end of the window may lie beside its place before it is laid anew."""
SHORTEST_CYCLE_S, LONGEST_CYCLE_S = 1e-100, 1e100
"""Cycles count as these where they lie beyond: rates and times of any window are finite, and so are their products."""
FARTHEST_START, LONGEST_STEP, WIDEST = 250.0, 30.0, 250.0
"""No window's start is further from 0, no step longer, no `wide` more."""
_ROW = 0.0375
"""Logarithm of the ratio between neighbouring gaps of an index table."""
_LOWEST, _BEYOND = -30.0, 8.0
"""Logarithms of the expected changes at the slowest rate in the table's first row, at the fastest in its last."""
_LEAST = 2.0**-24
"""No likelihood counts as less."""
_MOST = 300.0
"""Logarithms are cut here, and e to their power is finite."""
_ALIGNED = 1e-4
"""Positions this near to a cell are on it."""
_SPARE = 1e-3
"""By so much a window reaches further than it need: its numbers are rounded."""


@dataclass(frozen=True)
class Lattice:
    """CELLS rates in 1/s, and places between them: a place x is the rate exp(start + step x).

    The slowest rate is at place 0, each of the next WIDE at `wide` (1 or more) further than the one before, the others
    at 1 further. So `step` is the natural logarithm of the ratio of neighbours that stand dense.
    """

    start: float
    step: float
    wide: float = 1.0

    @cached_property
    def places(self) -> NDArray[np.float64]:
        """Where the rates are, float64[CELLS], ascending from 0."""
        return np.cumsum(np.r_[0.0, np.full(WIDE, self.wide), np.ones(CELLS - 1 - WIDE)])

    @cached_property
    def rates(self) -> NDArray[np.float64]:
        """The window's rates, float64[CELLS], 1/s, ascending."""
        return self.at(self.places)

    def at(self, place: NDArray[np.floating]) -> NDArray[np.float64]:
        """Rates (1/s) at places of any shape."""
        return np.asarray(np.exp(self.start + self.step * place))

    def place(self, of: Lattice, there: NDArray[np.floating]) -> NDArray[np.float64]:
        """Where on this lattice the places on another are, of any shape."""
        return np.asarray((of.start - self.start + of.step * there) / self.step)

    def between(self, cells: NDArray[np.floating]) -> NDArray[np.float64]:
        """Places of cells, counted from 0, and of positions between them, of any shape."""
        return np.asarray(np.interp(cells, np.arange(CELLS), self.places))

    def cell(self, place: NDArray[np.floating]) -> NDArray[np.float64]:
        """The cells, and positions between them, at places of any shape; beyond the window its edge."""
        found = np.interp(place, self.places, np.arange(CELLS))
        whole = np.rint(found)
        return np.asarray(np.where(np.abs(found - whole) < _ALIGNED, whole, found))

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Places half way between the rates, and half a place beyond the first and the last, float64[CELLS + 1]."""
        middle = (self.places[1:] + self.places[:-1]) / 2
        return np.asarray(np.r_[-0.5, middle, self.places[-1] + 0.5])

    def fits(self, wanted: Lattice) -> bool:
        """Whether ends and dense part lie within the slack of where they are wanted."""
        corners = [0, WIDE, CELLS - 1]
        apart = self.place(wanted, wanted.places[corners]) - self.places[corners]
        return bool((np.abs(apart) <= SLACK).all())


def lattice_for(cycle: float, sites: int) -> Lattice:
    """The window for so many sites, polled once in a uniform cycle in s.

    Its numbers are rounded as stored rows keep them, and it reaches a little further for that. Dense parts with the
    same step have their rates in common, as far as both go: with another budget these keep their meaning.
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
    """`h(z) = LOG_UTILITY log(1 + z / LOG_UTILITY)` of the expected number z >= 0 of changes, any shape.

    In the doubt about a rate, E[g] counts all high rates alike and tries too little, the mean believes the highest and
    tries too much; the certainty equivalent under h lies between.
    """
    return np.asarray(LOG_UTILITY * np.log1p(z / LOG_UTILITY))


def index_of_certainty_equivalent(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(z) of the z with `log_utility(z) = value`, any shape; the error is below 1e-15 or so, not of g but of z."""
    z = LOG_UTILITY * np.expm1(value / LOG_UTILITY)
    gone = np.expm1(-z)
    return np.asarray(-gone - z * (1.0 + gone))


def window_of(numbers: NDArray[np.float64]) -> Lattice:
    """The window with a stored start, step and `wide`, float64[3]; raises InvalidValueError for what no window has."""
    start, step, wide = (float(x) for x in numbers)
    if not (abs(start) <= FARTHEST_START and 0 < step <= LONGEST_STEP and 1 <= wide <= WIDEST):
        allowed = f"a window that starts within {FARTHEST_START:g} and steps by up to {LONGEST_STEP:g}"
        raise InvalidValueError("shared_state", allowed, (start, step, wide))
    return Lattice(start, step, wide)


def move_likelihood(
    rows: NDArray[np.float32], prior: NDArray[np.float64], old: Lattice, new: Lattice
) -> NDArray[np.float32]:
    """Rows [k, CELLS] of likelihoods over one window as rows over another.

    Between the cells of the old window their logarithms are interpolated by the rate, which is exact for silence.
    Cells that leave it are merged into its edge, by their prior mass [CELLS]; those that enter continue the edge: of
    rates never entertained, the nearest one's likelihood is the best guess.
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
    """Probabilities [k, CELLS] over one window as ones over another: what leaves it gathers at the edge."""
    return np.asarray(mass @ _between_cells(new.cell(new.place(old, old.places))))


def _between_cells(place: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights float64[k, CELLS] of the cells beside positions float64[k], counted from 0."""
    apart = np.abs(place[:, None] - np.arange(CELLS))
    return np.maximum(1.0 - apart, 0.0)


@lru_cache(maxsize=16)
def index_table(step: float, wide: float, objective: str) -> NDArray[np.float32]:
    """float32[rows, CELLS]: what counts of the changes expected at each rate, by `locate`'s rows, read only.

    Of a window with this step and `wide`: `log_utility` of them under `changes`, else g; under `freshness` times the
    amplitude 1 / λ, in units of the slowest rate's.
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
    """Rows of a table of so many, the fraction towards the next: elapsed float64[n] s, rates moved by `offset` float[n]
    places."""
    with np.errstate(divide="ignore"):
        x = (np.log(elapsed) + (lattice.start - _LOWEST)) / _ROW + (lattice.step / _ROW) * offset
    x = np.clip(x, 0.0, rows - 1.001)
    row = x.astype(np.int64)
    return row, (x - row).astype(np.float32)
