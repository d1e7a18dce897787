"""A window of rates on a logarithmic lattice, the index tabulated over it, and the likelihood of evidence at each rate.

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

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import g
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

    def place(self, of: Lattice, other_places: NDArray[np.floating]) -> NDArray[np.float64]:
        """Converts places on another lattice to this one, any shape."""
        return np.asarray((of.start - self.start + of.step * other_places) / self.step)

    def between(self, cells: NDArray[np.floating]) -> NDArray[np.float64]:
        """Returns places of cells, counted from 0, and of positions between them, any shape."""
        return np.asarray(np.interp(cells, np.arange(CELLS), self.places))

    def cell(self, place: NDArray[np.floating]) -> NDArray[np.float64]:
        """Returns cells, and positions between them, at places of any shape; the edge beyond the window."""
        position = np.interp(place, self.places, np.arange(CELLS))
        whole = np.rint(position)
        return np.asarray(np.where(np.abs(position - whole) < _ALIGNED, whole, position))

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Places half way between the rates, and half a place beyond the first and the last, float64[CELLS + 1]."""
        middle = (self.places[1:] + self.places[:-1]) / 2
        return np.asarray(np.r_[-0.5, middle, self.places[-1] + 0.5])

    @cached_property
    def fine_rates(self) -> NDArray[np.float64]:
        """The window's rates (odd rows) and those of the edges (even rows), float64[2 CELLS + 1], 1/s, ascending."""
        return self.at(np.sort(np.r_[self.places, self.edges]))

    def fits(self, other: Lattice) -> bool:
        """Returns whether both ends and the start of the dense part are within the slack of those of the other."""
        corners = [0, WIDE, CELLS - 1]
        apart = self.place(other, other.places[corners]) - self.places[corners]
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


# Likelihood of the number of items that a feed showed as new: Gamma-Poisson, and censored if all were new.
#
# At a mean of m = λτ expected items the number N of items follows a negative binomial law of mean m and shape r: a
# Poisson law whose rate varies around λ from poll to poll by a Gamma law of shape r. It has the mean of the data at its
# maximum, unlike the heavy tail of `likelihood`, because under `interest` every item counts; and r bounds the evidence
# of one poll, because items come in bursts. Given that there is one at all, whose likelihood is that of other pages:
#
# | the feed showed | likelihood in λ |
# |---|---|
# | k new items, and older ones | `P(N = k) / P(N > 0)` |
# | k new items and no older one | `P(N >= k) / P(N > 0)` |
# | the same, dated over a span s | `P(N = k)` at m = λs, apart from whether there is one |

Array = NDArray[np.float64]
SHAPE = 2.0
"""r: one poll tells as much of the rate as two times of single items would."""
_SMALLEST = 1e-300
_DIFFERENCE = 1e-3
"""Step of log λ for derivatives of the censored law."""


def log_of_number(mean: Array, number: Array) -> Array:
    """Returns log P(N = k), apart from a constant in m, for broadcastable mean m > 0 and number k >= 0."""
    return np.asarray(number * np.log(np.maximum(mean, _SMALLEST)) - (number + SHAPE) * np.log(mean + SHAPE))


def log_of_any(mean: Array) -> Array:
    """Returns log P(N > 0) for mean m > 0, any shape."""
    return np.asarray(np.log(np.maximum(-np.expm1(-SHAPE * np.log1p(mean / SHAPE)), _SMALLEST)))


def log_of_at_least(mean: Array, number: Array) -> Array:
    """Returns log P(N >= k), for broadcastable mean m > 0 and number k >= 1; the shape is a whole number."""
    share = mean / (mean + SHAPE)
    term = np.ones(np.broadcast_shapes(mean.shape, number.shape))
    total = term.copy()
    for j in range(1, int(SHAPE)):
        term = term * (number + j - 1) / j * (1.0 - share)
        total += term
    return np.asarray(number * np.log(np.maximum(share, _SMALLEST)) + np.log(total))


def rows_of_items(evidence: EvidenceBatch, first: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns which of k polls tell a number of new items, bool[k]; first bool[k]: first polls, which need a span."""
    shown = evidence.at_least >= 1
    return shown & np.where(first, ~np.isnan(evidence.span), evidence.found)


def log_likelihood_of_items(rates: Array, gap: Array, evidence: EvidenceBatch, first: NDArray[np.bool_]) -> Array:
    """Returns float64[k, m], apart from whether there is an item, for rates float64[m] or [k, m] and gap float64[k] s.

    All rows tell a number (`rows_of_items`).
    """
    number, over, dated, full = _numbers(gap, evidence)
    mean = rates * over[:, None]
    out = log_of_number(mean, number[:, None])
    if full.size:
        out[full] = log_of_at_least(mean[full], number[full, None])
    here = ~(dated | first)
    out[here] -= log_of_any(mean[here])
    return out


def score_of_items(rates: Array, gap: Array, evidence: EvidenceBatch, first: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Returns the derivative of `log_likelihood_of_items` by log λ at one rate for each poll, and its information.

    float64[k] each, for rates float64[k].
    """
    number, over, dated, full = _numbers(gap, evidence)
    mean = np.maximum(rates * over, _SMALLEST)
    slope, information = SHAPE * (number - mean) / (mean + SHAPE), SHAPE * mean / (mean + SHAPE)
    if full.size:
        below, at, above = (
            log_of_at_least(mean[full] * np.exp(step), number[full]) for step in (-_DIFFERENCE, 0.0, _DIFFERENCE)
        )
        slope[full] = (above - below) / (2 * _DIFFERENCE)
        information[full] = np.maximum((2 * at - above - below) / _DIFFERENCE**2, 0.0)
    none = np.exp(-SHAPE * np.log1p(mean / SHAPE))
    any_slope = mean / (1.0 + mean / SHAPE) * none / np.maximum(1.0 - none, _SMALLEST)
    return np.where(dated | first, slope, slope - any_slope), information


def _numbers(gap: Array, evidence: EvidenceBatch) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.int64]]:
    """Returns numbers float64[k], the s they came in, whether these are by dates bool[k], and the censored rows."""
    dated = ~np.isnan(evidence.span) & (evidence.count < 0)
    full = np.flatnonzero(~dated & (evidence.count < 0))
    return evidence.at_least.astype(np.float64), np.where(dated, evidence.span, gap), dated, full


# Likelihood of each kind of evidence at each rate λ (docs/model.md, "Learning"), made robust to bursts.
#
# | evidence over a gap τ | likelihood in λ |
# |---|---|
# | unchanged | `e^{-λτ}` |
# | changed | `1 - e^{-λτ}` |
# | k >= 1 items | `(1 - e^{-λτ}) · (1 + λτ) / ((k + λτ)(k + 1 + λτ))` |
# | last change at age a | `λ e^{-λa}` with a no less than τ / 16 |
# | first poll, last change at age a | `λ e^{-λa}` |
# | a feed's items, of the policies that count them | `log_likelihood_of_items` |
#
# The count is a hurdle model: whether there are items has the usual likelihood, their number the heavy-tailed
# `P(at least k) = (1 + λτ) / (k + λτ)`. So k items favour a higher rate by a factor of at most k² / 2, which under a
# Poisson law is unbounded: a few quiet polls outweigh a burst of a hundred. The least age does the same for a page
# caught in the middle of a burst.

SHORTEST_AGE = 1 / 16
"""Ages count as at least this share of the gap."""
_FULL, _TINY = 500.0, 1e-12
"""Bounds of expected changes, beyond which more, or fewer, make no difference."""
_MIN_LOG = -600.0
"""Lower bound of log-likelihoods: practically 0, but not 0."""


def likelihood(
    rates: NDArray[np.float64], elapsed: NDArray[np.float64], evidence: EvidenceBatch
) -> NDArray[np.float64]:
    """Returns float64[k, K], each row scaled to a maximum of 1, for rates float64[K] (1/s), elapsed float64[k] s.

    Rows with elapsed = inf and no age are uninformative and all 1.
    """
    first = np.isinf(elapsed)
    gap = np.where(first, 0.0, np.maximum(elapsed, 0.0))
    itemised = rows_of_items(evidence, first)
    counted = (evidence.count >= 0) & ~(first | itemised)
    changed = np.where(first, evidence.changed, evidence.found)
    mean = gap[:, None] * rates
    out = log_likelihood(mean, changed)
    if counted.any():
        _add_counts(out, mean, evidence.count, counted & changed)
    dated = ~np.isnan(evidence.age) & ~(counted | itemised) & (changed | first)
    if dated.any():
        age = np.where(first, evidence.age, np.clip(evidence.age, SHORTEST_AGE * gap, gap))
        out[dated] = np.log(rates) - rates * age[dated, None]
    out[first & ~dated] = 0.0
    if itemised.any():
        some = evidence.take(np.flatnonzero(itemised))
        out[itemised] += log_likelihood_of_items(rates, gap[itemised], some, first[itemised])
    # a gap of 0 s that found a change is ignored: it is impossible at every rate
    out[np.isneginf(out).all(1)] = 0.0
    scaled: NDArray[np.float64] = np.exp(np.maximum(out - out.max(1, keepdims=True), _MIN_LOG))
    return scaled


def combined(likelihood: NDArray[np.float64], logarithm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns likelihoods float64[k, K] times exp(logarithm), each row scaled to a maximum of 1."""
    out = np.log(np.maximum(likelihood, math.exp(_MIN_LOG))) + logarithm
    scaled: NDArray[np.float64] = np.exp(np.maximum(out - out.max(1, keepdims=True), _MIN_LOG))
    return scaled


def log_likelihood(mean: NDArray[np.float64], changed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns the logarithms float64[k, m] of the probabilities of what k polls found, at expected changes [k, m].

    Most batches are without a change, and need no logarithms.
    """
    if not changed.any():
        return -mean
    with np.errstate(divide="ignore"):
        return np.where(changed[:, None], np.log(-np.expm1(-mean)), -mean)


def score(
    rates: NDArray[np.float64], gap: NDArray[np.float64], changed: NDArray[np.bool_], evidence: EvidenceBatch
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the derivative of the log-likelihood by log λ at one rate for each poll, and its expected information.

    float64[k] each, for informative polls; rates float64[k] (1/s), gap float64[k] s, 0 for first polls, changed from
    `EvidenceBatch.found`. The information is that of whether the page changed; with an age, of when.
    """
    mean = np.minimum(gap * rates, _FULL) + _TINY
    if_changed = mean / np.expm1(mean)
    slope, information = np.where(changed, if_changed, -mean), mean * if_changed
    first = gap == 0
    itemised = rows_of_items(evidence, first)
    counted = (evidence.count >= 0) & ~itemised
    if counted.any():
        k = evidence.count
        slope += np.where(counted & changed, mean / (1 + mean) - mean / (k + mean) - mean / (k + 1 + mean), 0.0)
    dated = ~np.isnan(evidence.age)
    if dated.any():
        dated &= ~(counted | itemised) & (changed | first)
        age = np.where(first, evidence.age, np.clip(evidence.age, SHORTEST_AGE * gap, gap))
        slope = np.where(dated, 1.0 - rates * age, slope)
        information = np.where(dated, np.where(first, 1.0, -np.expm1(-mean)), information)
    if itemised.any():
        some = np.flatnonzero(itemised)
        of_items = score_of_items(rates[some], gap[some], evidence.take(some), first[some])
        slope[some] = of_items[0] + np.where(first[some], 0.0, slope[some])
        information[some] = of_items[1] + np.where(first[some], 0.0, information[some])
    return slope, information


def _add_counts(
    out: NDArray[np.float64],
    mean: NDArray[np.float64],
    count: NDArray[np.int64],
    rows: NDArray[np.bool_],
) -> None:
    """Adds the log-likelihood of the number of items, given at least one, to `rows`."""
    k, m = count[rows, None], mean[rows]
    out[rows] += np.log1p(m) - np.log(k + m) - np.log(k + 1 + m)
