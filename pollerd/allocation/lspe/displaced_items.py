"""States and rewards of [D] at sites that show only their newest M items; an item displaced before a poll is lost.

The state that waits for a poll at the gap τ is then `R(τ)` of `core.objectives.finite_feeds` in place of
`u* (1 - e^(-μτ))`, and its limit takes the place of u*. A poll that finds every item new collects, on average,

    E[value | N >= M] = (R(τ) - (λ/μ) (1 - e^(-μτ)) Q(M - 1, λτ)) / P(M, λτ)
                      = (λ/μ) [(1 - e^(-μτ)) p(M - 1; λτ) + P(M, λτ) - ρ^M P(M, (λ + μ) τ)] / P(M, λτ)

for N items that came, as n < M of them are spread evenly over the gap; p is the Poisson law. Of N it learns
`E[N | N >= M] = λτ P(M - 1, λτ) / P(M, λτ)` at the rate believed so far, the step of the EM algorithm for a censored
Poisson variable; or the number that came in the time since the oldest item, where items are dated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.objectives.finite_feeds import finite_value
from pollerd.allocation.core.objectives.incomplete_gamma import incomplete_gamma

Array = NDArray[np.float64]


def value_if_full(gap: Array, rates: Array, decay: Array, items: Array) -> Array:
    """Returns what a poll that finds every item new collects on average for weight 1, float64[m], at most M.

    gap s > 0; rates λ > 0, decay μ > 0, 1/s; items M >= 1: float64[m]. Where this is too unlikely to compute, all items
    are taken to be spread evenly over the gap.
    """
    mean, fading = rates * gap, decay * gap
    full = incomplete_gamma(items, mean)[0]
    fewer = np.where(items > 1, incomplete_gamma(np.maximum(items - 1.0, 1.0), mean)[1], 0.0)
    partly = rates / decay * -np.expm1(-fading) * fewer
    evenly = items * np.where(fading > 0, -np.expm1(-fading) / np.where(fading > 0, fading, 1.0), 1.0)
    likely = full > 1e-9
    collected = (finite_value(gap, rates, decay, items) - partly) / np.where(likely, full, 1.0)
    return np.asarray(np.where(likely, np.clip(collected, 0.0, items), evenly))


def number_if_full(gap: Array, rates: Array, items: Array) -> Array:
    """Returns the expected number of new items if there were at least M, float64[m]; arguments as above."""
    mean = rates * gap
    full = incomplete_gamma(items, mean)[0]
    fewer = np.where(items > 1, incomplete_gamma(np.maximum(items - 1.0, 1.0), mean)[0], 1.0)
    return np.asarray(np.maximum(np.where(full > 0, mean * fewer / np.where(full > 0, full, 1.0), items), items))
