"""The objective `interest` for sites that show only their newest M items: index, best split, gamma functions.

A poll collects the items that are still there. [D] and [E] call M_i the number of epochs after which an item is gone; a
feed drops an item when M newer ones have come. Items come at rate λ, lose their interest at rate μ and are worth 1 when
new. The k-th newest has an age A_k of the law Gamma(k, λ), so a poll after a gap τ collects (docs/papers/ephemeral.md)

    R(τ) = Σ_{k<=M} E[e^{-μ A_k}; A_k <= τ] = ∫_0^τ λ e^{-μ a} Q(M, λ a) da
         = (λ/μ) [(1 - e^{-μτ}) Q(M, λτ) + P(M, λτ) - ρ^M P(M, (λ + μ) τ)],    ρ = λ / (λ + μ)

with P and Q the regularised incomplete gamma functions: an item of age a is still there if fewer than M came after it.
R' = λ e^{-μτ} Q(M, λτ) falls, so R is concave and every site has one best period for each price of a poll, which rises
with the price: the sites are indexable, and the index is

    R(τ) - τ R'(τ) = (λ/μ) [g(μτ) Q(M, λτ) + P(M, λτ) - ρ^M P(M, (λ + μ) τ)]

It rises from 0 to R(∞) = (λ/μ)(1 - ρ^M). For M = ∞ both are those of `index.py`; for μ = 0 the index is
M P(M + 1, λτ), and R the expected number of items, at most M. All terms are positive: nothing cancels but P - ρ^M P,
whose precision is relative to P.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.index import CrossingTimes, Mixture, g, g_inverse, share_out
from pollerd.allocation.objectives import PricedSites

# Regularised incomplete gamma functions on arrays: the distribution of the age of the k-th newest Poisson event.
#
# P(a, x) is the probability that a Gamma(a, 1) variable is at most x; for whole a, that a Poisson variable of mean x is
# at least a. By the power series below x = a + 1 and Lentz's continued fraction above (Abramowitz & Stegun 6.5.29 and
# 6.5.31).

Array = NDArray[np.float64]
_SHIFT = 8
"""Stirling's series is used at arguments above this: its error there is below 1e-13."""
_NEGLIGIBLE = -50.0
"""Logarithm of a probability that is taken as 0."""
_SERIES_PRECISION = 1e-15
_MAX_TERMS = 5_000
_TINY = 1e-300


def log_gamma(z: Array) -> Array:
    """Returns log Γ(z) for z >= 1, any shape; error below 1e-12 of its size."""
    z = np.asarray(z, np.float64)
    product = np.ones_like(z)
    for step in range(_SHIFT):
        product *= z + step
    far = z + _SHIFT
    inverse = 1.0 / (far * far)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / far
    return np.asarray((far - 0.5) * np.log(far) - far + 0.5 * math.log(2 * math.pi) + series - np.log(product))


def incomplete_gamma(a: Array, x: Array) -> tuple[Array, Array]:
    """Returns (P, Q) = (lower, upper) for a >= 1 and x >= 0, of one shape; P + Q = 1, each precise where it is small.

    Probabilities below e^-50 are 0. a up to about 10^6 (the series then takes some thousand terms).
    """
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    below = x < a + 1.0
    lower, upper = np.where(below, 0.0, 1.0), np.where(below, 1.0, 0.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        front = a * np.log(x) - x - log_gamma(a + 1.0)
    inside = front > _NEGLIGIBLE
    for rows, function, small, large in (
        (inside & below, _series, lower, upper),
        (inside & ~below, _fraction, upper, lower),
    ):
        if rows.any():
            small[rows] = np.minimum(np.exp(front[rows]) * function(a[rows], x[rows]), 1.0)
            large[rows] = 1.0 - small[rows]
    return lower, upper


def _series(a: Array, x: Array) -> Array:
    """Returns Γ(a + 1) e^x x^-a P(a, x), float64[m], for x < a + 1."""
    term = np.ones_like(x)
    total = np.ones_like(x)
    for n in range(1, _MAX_TERMS):
        term *= x / (a + n)
        total += term
        if (term <= _SERIES_PRECISION * total).all():
            break
    return total


def _fraction(a: Array, x: Array) -> Array:
    """Returns Γ(a + 1) e^x x^-a Q(a, x), float64[m], for x >= a + 1: a times the continued fraction of Γ(a, x)."""
    b = x + 1.0 - a
    c = np.full_like(x, 1.0 / _TINY)
    d = 1.0 / b
    total = d.copy()
    for n in range(1, _MAX_TERMS):
        numerator = -n * (n - a)
        b = b + 2.0
        d = numerator * d + b
        c = b + numerator / c
        d = 1.0 / np.where(np.abs(d) < _TINY, _TINY, d)
        c = np.where(np.abs(c) < _TINY, _TINY, c)
        factor = c * d
        total *= factor
        if (np.abs(factor - 1.0) <= 4 * _SERIES_PRECISION).all():
            break
    return a * total


Values = Array | np.floating | float


class _Terms(NamedTuple):
    """Parts of both formulas: λ/μ, Q(M, λτ), and P(M, λτ) - ρ^M P(M, (λ + μ) τ)."""

    amplitude: Array
    kept: Array
    displaced: Array


def finite_index(gap: Values, rates: Values, decay: Values, items: Values) -> Array:
    """Returns the index under `interest` for weight and cost 1, of broadcastable shapes.

    gap τ in s >= 0; rates λ >= 0 and decay μ > 0 in 1/s; items M >= 1, inf: all stay.
    """
    amplitude, kept, displaced = _terms(gap, rates, decay, items)
    return np.asarray(amplitude * (g(np.multiply(decay, gap)) * kept + displaced))


def finite_value(gap: Values, rates: Values, decay: Values, items: Values) -> Array:
    """Returns what a poll after the gap collects for weight 1, of broadcastable shapes; arguments as above."""
    amplitude, kept, displaced = _terms(gap, rates, decay, items)
    return np.asarray(amplitude * (-np.expm1(-np.multiply(decay, gap)) * kept + displaced))


def most_collected(rates: Values, decay: Values, items: Values) -> Array:
    """Returns the limit of index and value for long gaps, (λ/μ)(1 - ρ^M), of broadcastable shapes."""
    rates, decay, items = (np.asarray(x, np.float64) for x in (rates, decay, items))
    with np.errstate(divide="ignore", invalid="ignore"):
        fading = -items * np.log1p(decay / rates)  # M log ρ
        return np.where(rates > 0, rates / decay * -np.expm1(fading), 0.0)


@dataclass(frozen=True, slots=True)
class IndexAt:
    """The index of m feeds at a gap each, float64[m]."""

    index: Array
    missing: Array
    """The limit less the index, (λ/μ) [(1 + μτ) e^{-μτ} Q(M, λτ) - ρ^M Q(M, (λ + μ) τ)]: precise where it is small."""
    slope: Array
    """How fast the index rises, -τ R'' = λ τ e^{-μτ} [μ Q(M, λτ) + λ p(M - 1; λτ)] in 1/s, p: the Poisson law."""


def index_at(gap: Array, rates: Array, decay: Array, items: Array) -> IndexAt:
    """Returns the index for weight and cost 1 with its slope, float64[m] each; all > 0, items >= 1 and finite."""
    mean, fading, amplitude = rates * gap, decay * gap, rates / decay
    came, kept = incomplete_gamma(items, mean)
    both_came, both_kept = incomplete_gamma(items, mean + fading)
    value_left = np.exp(-items * np.log1p(1.0 / amplitude))
    left = np.exp(-fading)
    return IndexAt(
        amplitude * (g(fading) * kept + np.maximum(came - value_left * both_came, 0.0)),
        amplitude * np.maximum((1.0 + fading) * left * kept - value_left * both_kept, 0.0),
        mean * left * (decay * kept + rates * np.exp((items - 1.0) * np.log(mean) - mean - log_gamma(items))),
    )


def _terms(gap: Values, rates: Values, decay: Values, items: Values) -> _Terms:
    gap, rates, decay, items = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (gap, rates, decay, items)))
    kept, displaced = np.ones(gap.shape), np.zeros(gap.shape)
    limited = np.isfinite(items) & (rates > 0)
    some_gap, some_rates, some_decay, m = gap[limited], rates[limited], decay[limited], items[limited]
    came, kept[limited] = incomplete_gamma(m, some_rates * some_gap)
    discounted = np.zeros(len(m))
    possible = came > 0
    # e^{M log ρ} P(M, (λ + μ) τ) = ∫ e^{-μ s} dP(M, λ s) <= P(M, λτ)
    value_left = np.exp(-m[possible] * np.log1p(some_decay[possible] / some_rates[possible]))
    both = (some_rates + some_decay)[possible] * some_gap[possible]
    discounted[possible] = value_left * incomplete_gamma(m[possible], both)[0]
    displaced[limited] = np.maximum(came - discounted, 0.0)
    return _Terms(rates / decay, kept, displaced)


# The best split of a budget for known rates.
#
# Each index is taken as a share of its limit. The gap at which that of `finite_index` reaches a share is found by
# Newton's method in the logarithms of the gap and of the share, or of what is missing to 1, whichever is smaller: with
# a tight budget some are so near their limits that the index itself lacks digits.

_LOGITS = (-690.0, 690.0)
_LOG_GAPS = (-400.0, 400.0)
_MAX_STEPS = 200
_PRECISION = 1e-13
"""Precision of the logarithms of a gap or an index."""


def finite_periods(share: Array, complement: Array, rates: Array, decay: Array, items: Array) -> Array:
    """Returns the gaps in s at which the index is a share of its limit, float64[m]; inf where that is 1 or more.

    share float64[m] > 0 and complement, 1 less the share; rates λ > 0 and decay μ > 0 in 1/s; items M >= 1, finite.
    """
    out = np.full(len(share), np.inf)
    single = np.flatnonzero(items == 1.0)  # the index is λ / (λ + μ) g((λ + μ) τ)
    out[single] = g_inverse(share[single], complement[single]) / (rates + decay)[single]
    some = np.flatnonzero((items > 1.0) & (complement > 0))
    out[some] = np.exp(_log_gaps(share[some], complement[some], rates[some], decay[some], items[some]))
    return out


def _log_gaps(share: Array, complement: Array, rates: Array, decay: Array, items: Array) -> Array:
    """Returns the logarithms of the gaps at which the index is the share of its limit, float64[m].

    A step of Newton's that leaves the bounds, or is not half as long as the one before, is replaced by a bisection.
    """
    limit, near_limit = most_collected(rates, decay, items), share > 0.5
    target = np.log(np.where(near_limit, complement, share) * limit)
    low, high = (np.full(len(share), end) for end in _LOG_GAPS)
    at, before = np.log(np.minimum(items / rates, 1.0 / decay)), high - low
    left = np.arange(len(share))
    for _ in range(_MAX_STEPS):
        gap = np.exp(at[left])
        at_gap, near = index_at(gap, rates[left], decay[left], items[left]), near_limit[left]
        value = np.where(near, at_gap.missing, at_gap.index)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            excess = np.where(near, -1.0, 1.0) * (np.log(value) - target[left])
            step = excess * value / (gap * at_gap.slope)
        above = excess > 0
        high[left] = np.where(above, at[left], high[left])
        low[left] = np.where(above, low[left], at[left])
        new = at[left] - step
        newton = (new > low[left]) & (new < high[left]) & (np.abs(step) <= 0.5 * before[left])
        new = np.where(newton, new, (low[left] + high[left]) / 2)
        moved = np.abs(new - at[left])
        far = np.abs(excess) > _PRECISION
        at[left] = np.where(far, new, at[left])
        before[left] = moved
        left = left[far & (moved > _PRECISION)]
        if not left.size:
            break
    return at


def split_with_feeds(
    budget: float, rates: Array, decay: Array, items: Array, weight: Array, cost: Array
) -> tuple[float, Array]:
    """Returns the price θ with `Σ C / period(θ) = budget`, and the periods float64[n] in s; (0, inf) without any value.

    rates λ >= 0 and decay μ > 0 in 1/s; items M >= 1, nan: all stay; weight >= 0; cost C > 0; float64[n] each.
    """
    alive = np.flatnonzero((rates > 0) & (weight > 0))
    every = np.full(len(rates), np.inf)
    if not alive.size:
        return 0.0, every
    rates, decay, items, weight, cost = (of[alive] for of in (rates, decay, items, weight, cost))
    limit = weight / cost * most_collected(rates, decay, np.where(np.isnan(items), np.inf, items))
    top = float(limit.max())
    scaled, feeds, others = top / limit, np.flatnonzero(~np.isnan(items)), np.flatnonzero(np.isnan(items))

    def periods_at(logit: float) -> Array:
        share, rest = 1.0 / (1.0 + math.exp(-logit)), 1.0 / (1.0 + math.exp(logit))
        each, complement = scaled * share, (1.0 - scaled) * share + rest
        periods = np.empty(len(each))
        periods[others] = g_inverse(each[others], complement[others]) / decay[others]
        periods[feeds] = finite_periods(each[feeds], complement[feeds], rates[feeds], decay[feeds], items[feeds])
        return periods

    logit, periods = share_out(budget, cost, periods_at, _LOGITS)
    # what is missing to a limit is 0 below e^-50: a budget so tight that nothing else is polled is spent in proportion
    every[alive] = periods * (float((cost / periods).sum()) / budget)
    return top / (1.0 + math.exp(-logit)), every


# The best split of a budget under a belief about the rates, if some sites show only their newest items.
#
# Of these sites the mean rate counts, instead of the expectation over the belief: the index of one is a table of gaps,
# and the expectation would cost twenty times as much for figures that are only displayed.

_SHORTEST, _LONGEST = 0.02, 60.0
"""Gaps of the table, in units of the shortest time in which a feed fills or items fade, and the longest of fading."""
_COLUMNS_PER_EFOLD = 8.0
_WIDEST = 1e12


def with_items_shown(sites: PricedSites, weight: Array, items: Array, objective: str) -> PricedSites:
    """Returns the sites as they are polled if they show `items` float64[k] of their newest items; nan: no limit.

    weight: float64[k]. Only `interest` depends on it.
    """
    if objective != "interest" or not isinstance(sites, Mixture) or np.isnan(items).all():
        return sites
    return FeedMixture(sites, weight, items)


class FeedMixture(Mixture):
    """As `Mixture` for `interest`, with indices and values of finite feeds where items float64[k] is not nan."""

    def __init__(self, of: Mixture, weight: Array, items: Array) -> None:
        super().__init__(*of.columns)
        known = ~np.isnan(items) & (weight > 0)
        self._limited = np.flatnonzero(known)
        some = self._limited
        decay = self._rate[some] if len(self._rate) > 1 or len(self._cost) == 1 else self._rate[np.zeros_like(some)]
        self._weight, self._items, self._decay = weight[some, None], items[some, None], decay
        self._mean = self._amplitude[some].sum(1, keepdims=True) * decay / self._weight

    @cached_property
    def crossings(self) -> CrossingTimes:
        """Table of the gaps at which the index of each site reaches a level, without floors."""
        gaps = self._gaps()
        return CrossingTimes(gaps, self._index(gaps))

    def _gaps(self) -> Array:
        fading = self._rate[self._rate > 0]
        if not fading.size:
            return np.array([1.0, 2.0])
        fills = self._items[self._mean > 0] / self._mean[self._mean > 0]
        longest = _LONGEST / float(fading.min())
        shortest = _SHORTEST * min(1.0 / float(fading.max()), float(fills.min(initial=np.inf)))
        shortest = max(shortest, longest / _WIDEST)
        columns = 2 + math.ceil(math.log(longest / shortest) * _COLUMNS_PER_EFOLD)
        return np.geomspace(shortest, longest, columns)

    def _index(self, gaps: Array) -> NDArray[np.float32]:
        out = super()._index(gaps)
        index = self._weight * finite_index(gaps[None], self._mean, self._decay, self._items)
        out[self._limited] = index / self._cost[self._limited, None]
        return out

    def value(self, period: Array) -> float:
        """Returns the expected value per second when each site is polled every `period` float64[k] s; inf: never."""
        others = period.copy()
        others[self._limited] = np.inf
        gap = period[self._limited, None]
        polled = np.isfinite(gap) & (gap > 0)
        gap = np.where(polled, gap, 1.0)
        per_second = self._weight * finite_value(gap, self._mean, self._decay, self._items) / gap
        return super().value(others) + float(per_second.sum(where=polled))


# The incomplete gamma function P(M, x) for whole M by interpolation, a tenth of the time of `incomplete_gamma`.
#
# In √x the law is about as wide for each M, with a standard deviation near 1/2 around √M: so a table has as many nodes
# whatever M is. Between nodes a cubic has the values and slopes of P at both (Hermite), where dP/d√x = 2 √x p(M - 1; x)
# with the Poisson law p. So it is smooth, and small differences of P have a small relative error, too.

MAX_TABULATED = 512
"""Largest M that gets a table (of 11 KB)."""
_STEP = 1.0 / 32.0
"""Distance of nodes in √x."""
_REACH = 5.0
"""Distance from √M beyond which P is 0 or 1 to e^-50."""
_CELLS = 2 + round(2 * _REACH / _STEP)
"""Intervals of a table, with one for all that is below, and one for all above."""


class GammaTable:
    """Tables of P(M, x), made when an M is first asked for."""

    def __init__(self) -> None:
        self._start = np.zeros(MAX_TABULATED + 1)
        """√x at the first node of each M."""
        self._first = np.full(MAX_TABULATED + 1, -1)
        """Place of the first coefficients of each M; -1: not made yet."""
        self._coefficients = np.zeros((0, 4))

    @staticmethod
    def tabulated(items: Array) -> NDArray[np.bool_]:
        """Returns whether there are tables for M = items float64[m]: whole numbers up to `MAX_TABULATED`, bool[m]."""
        return np.asarray((items <= MAX_TABULATED) & (items == np.floor(items)))

    def places(self, items: Array) -> tuple[NDArray[np.int64], Array]:
        """Returns what `lower` needs of M = items float64[m], all tabulated: int64[m] and float64[m]."""
        whole = items.astype(np.int64)
        missing = np.unique(whole[self._first[whole] < 0])
        if missing.size:
            self._add(missing)
        return self._first[whole], self._start[whole]

    def lower(self, first: NDArray[np.int64], start: Array, root: Array) -> Array:
        """Returns P(M, root²), any shape of root float64 >= 0; first, start: as `places` returns them, of that shape.

        The error is below 1e-7, and below 1e-3 of P(M, x) where that is above 1e-9.
        """
        place = np.clip((root - start) / _STEP + 1.0, 0.0, _CELLS - 0.5)
        cell = place.astype(np.int64)
        place -= cell
        cell += first
        at = self._coefficients.take(cell, axis=0)
        out = at[..., 3] * place
        for power in (2, 1):
            out += at[..., power]
            out *= place
        out += at[..., 0]
        return np.asarray(out)

    def _add(self, numbers: NDArray[np.int64]) -> None:
        """Makes tables of M = numbers int64[m]."""
        m = numbers.astype(np.float64)[:, None]
        start = np.maximum(np.sqrt(m) - _REACH, 0.0)
        root = start + _STEP * np.arange(_CELLS - 1)
        value = incomplete_gamma(m, root * root)[0]
        with np.errstate(divide="ignore"):
            slope = 2.0 * _STEP * np.exp((2.0 * m - 1.0) * np.log(root) - root * root - log_gamma(m))
        rise = np.diff(value)
        table = np.zeros((len(numbers), _CELLS, 4))
        table[:, 1:-1, 0] = value[:, :-1]
        table[:, 1:-1, 1] = slope[:, :-1]
        table[:, 1:-1, 2] = 3.0 * rise - 2.0 * slope[:, :-1] - slope[:, 1:]
        table[:, 1:-1, 3] = slope[:, :-1] + slope[:, 1:] - 2.0 * rise
        table[:, -1, 0] = 1.0
        self._first[numbers] = len(self._coefficients) + _CELLS * np.arange(len(numbers))
        self._start[numbers] = start[:, 0]
        self._coefficients = np.concatenate([self._coefficients, table.reshape(-1, 4)])
