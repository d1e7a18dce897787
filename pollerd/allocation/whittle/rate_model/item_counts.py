"""Likelihood of the number of items that a feed showed as new: Gamma-Poisson, and censored if all were new.

At a mean of m = λτ expected items the number N of items follows a negative binomial law of mean m and shape r: a
Poisson law whose rate varies around λ from poll to poll by a Gamma law of shape r. It has the mean of the data at its
maximum, unlike the heavy tail of `likelihood`, because under `interest` every item counts; and r bounds what one poll
tells, because items come in bursts (theory.md 2b.4). Given that there is one at all, whose likelihood is that of other
pages:

| the feed showed | likelihood in λ |
|---|---|
| k new items, and older ones | `P(N = k) / P(N > 0)` |
| k new items and no older one | `P(N >= k) / P(N > 0)` |
| the same, dated over a span s | `P(N = k)` at m = λs, apart from whether there is one |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch

Array = NDArray[np.float64]
SHAPE = 2.0
"""r: one poll tells as much of the rate as two times of single items would."""
_TINY = 1e-300
_DIFFERENCE = 1e-3
"""Step of log λ for derivatives of the censored law."""


def log_of_number(mean: Array, number: Array) -> Array:
    """Returns log P(N = k), apart from a constant in m, for broadcastable mean m > 0 and number k >= 0."""
    return np.asarray(number * np.log(np.maximum(mean, _TINY)) - (number + SHAPE) * np.log(mean + SHAPE))


def log_of_any(mean: Array) -> Array:
    """Returns log P(N > 0) for mean m > 0, any shape."""
    return np.asarray(np.log(np.maximum(-np.expm1(-SHAPE * np.log1p(mean / SHAPE)), _TINY)))


def log_of_at_least(mean: Array, number: Array) -> Array:
    """Returns log P(N >= k), for broadcastable mean m > 0 and number k >= 1; the shape is a whole number."""
    share = mean / (mean + SHAPE)
    term = np.ones(np.broadcast_shapes(mean.shape, number.shape))
    total = term.copy()
    for j in range(1, int(SHAPE)):
        term = term * (number + j - 1) / j * (1.0 - share)
        total += term
    return np.asarray(number * np.log(np.maximum(share, _TINY)) + np.log(total))


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
    mean = np.maximum(rates * over, _TINY)
    slope, information = SHAPE * (number - mean) / (mean + SHAPE), SHAPE * mean / (mean + SHAPE)
    if full.size:
        below, at, above = (
            log_of_at_least(mean[full] * np.exp(step), number[full]) for step in (-_DIFFERENCE, 0.0, _DIFFERENCE)
        )
        slope[full] = (above - below) / (2 * _DIFFERENCE)
        information[full] = np.maximum((2 * at - above - below) / _DIFFERENCE**2, 0.0)
    none = np.exp(-SHAPE * np.log1p(mean / SHAPE))
    any_slope = mean / (1.0 + mean / SHAPE) * none / np.maximum(1.0 - none, _TINY)
    return np.where(dated | first, slope, slope - any_slope), information


def _numbers(gap: Array, evidence: EvidenceBatch) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.int64]]:
    """Returns numbers float64[k], the s they came in, whether these are by dates bool[k], and the censored rows."""
    dated = ~np.isnan(evidence.span) & (evidence.count < 0)
    full = np.flatnonzero(~dated & (evidence.count < 0))
    return evidence.at_least.astype(np.float64), np.where(dated, evidence.span, gap), dated, full
