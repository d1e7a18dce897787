"""Likelihood of each kind of evidence at each rate λ (theory.md 2), made robust to bursts (2b.4).

| evidence over a gap τ | likelihood in λ |
|---|---|
| unchanged | `e^{-λτ}` |
| changed | `1 - e^{-λτ}` |
| k >= 1 items | `(1 - e^{-λτ}) · (1 + λτ) / ((k + λτ)(k + 1 + λτ))` |
| last change at age a | `λ e^{-λa}` with a no less than τ / 16 |
| first poll, last change at age a | `λ e^{-λa}` |
| a feed's items, of the policies that count them | `item_counts` |

The count is a hurdle model: whether there are items has the usual likelihood, their number the heavy-tailed
`P(at least k) = (1 + λτ) / (k + λτ)`. So k items favour a higher rate by a factor of at most k² / 2, which under a
Poisson law is unbounded: a few quiet polls outweigh a burst of a hundred. The least age does the same for a page caught
in the middle of a burst.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.whittle.rate_model.item_counts import log_likelihood_of_items, rows_of_items, score_of_items

SHORTEST_AGE = 1 / 16
"""Ages count as at least this share of the gap."""
_FULL, _TINY = 500.0, 1e-12
"""Bounds of expected changes, beyond which more, or fewer, make no difference."""
_LEAST = -600.0
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
    scaled: NDArray[np.float64] = np.exp(np.maximum(out - out.max(1, keepdims=True), _LEAST))
    return scaled


def combined(likelihood: NDArray[np.float64], logarithm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns likelihoods float64[k, K] times exp(logarithm), each row scaled to a maximum of 1."""
    out = np.log(np.maximum(likelihood, math.exp(_LEAST))) + logarithm
    scaled: NDArray[np.float64] = np.exp(np.maximum(out - out.max(1, keepdims=True), _LEAST))
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
