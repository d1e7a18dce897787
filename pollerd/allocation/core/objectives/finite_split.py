"""The best split of a budget under `interest` for known rates, where sites show only their newest M items.

Each index is taken as a share of its limit. The gap at which that of `finite_feeds` reaches a share is found by
Newton's method in the logarithms of the gap and of the share, or of what is missing to 1, whichever is smaller: with a
tight budget some are so near their limits that the index itself lacks digits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import g_inverse, share_out
from pollerd.allocation.core.objectives.finite_feeds import index_at, most_collected

Array = NDArray[np.float64]
_LOGITS = (-690.0, 690.0)
_LOG_GAPS = (-400.0, 400.0)
_MOST_STEPS = 200
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
    for _ in range(_MOST_STEPS):
        gap = np.exp(at[left])
        found, near = index_at(gap, rates[left], decay[left], items[left]), near_limit[left]
        value = np.where(near, found.missing, found.index)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            excess = np.where(near, -1.0, 1.0) * (np.log(value) - target[left])
            step = excess * value / (gap * found.slope)
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
        found = np.empty(len(each))
        found[others] = g_inverse(each[others], complement[others]) / decay[others]
        found[feeds] = finite_periods(each[feeds], complement[feeds], rates[feeds], decay[feeds], items[feeds])
        return found

    logit, found = share_out(budget, cost, periods_at, _LOGITS)
    # what is missing to a limit is 0 below e^-50: a budget so tight that nothing else is polled is spent in proportion
    every[alive] = found * (float((cost / found).sum()) / budget)
    return top / (1.0 + math.exp(-logit)), every
