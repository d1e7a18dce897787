"""Index, periods and values under the objectives `delay` and `deadline`, for known rates (docs/objectives.md).

A change waits for the next poll of its page. Under `delay` it costs the seconds that it waits, under `deadline` it
counts if it waits no longer than D. With R(τ) the value of a poll after a gap of τ, less what waiting cost, the index
is R(τ) - τ R'(τ) per cost, as for the other objectives:

    delay      R = -w λ τ² / 2           index = (w λ / C) τ² / 2
    deadline   R = w λ min(τ, D)         index = (w λ D / C) [τ >= D], where [] is 1 if true, else 0

Both are linear in λ: under a belief the mean rate takes its place. `weighted_rate` is w λ everywhere here, per second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LONGEST_PERIOD_S = 1e12
"""Period for which a site that is never polled counts under `delay`: else its cost would be infinite."""
CLOCK_ERROR_S = 1e-6
"""Differences of epoch seconds are exact to less: a gap shorter than a deadline by this has reached it."""


def delay_index(gap: Array, weighted_rate: Array) -> Array:
    """Returns the index under `delay` for cost 1, of gaps in s >= 0; shapes that broadcast."""
    return np.asarray(weighted_rate * (0.5 * gap * gap))


def deadline_index(gap: Array, weighted_rate: Array, deadline: Array) -> Array:
    """Returns the index under `deadline` for cost 1, of gaps and deadlines in s; shapes that broadcast."""
    return np.where(gap + CLOCK_ERROR_S >= deadline, weighted_rate * deadline, 0.0)


def delay_periods(price: float | Array, weighted_rate: Array, cost: Array) -> Array:
    """Returns the periods in s at which the index reaches the price θ, > 0: sqrt(2 θ C / (w λ)); inf where w λ = 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(
            weighted_rate > 0, np.sqrt(2.0 * price * cost / np.where(weighted_rate > 0, weighted_rate, 1.0)), np.inf
        )


def deadline_periods(price: float | Array, weighted_rate: Array, cost: Array, deadline: Array) -> Array:
    """Returns the periods in s at which the index reaches the price θ, > 0: the deadline, or inf: it never does."""
    return np.where((weighted_rate > 0) & (weighted_rate * deadline >= price * cost), deadline, np.inf)


def delay_value(period: Array, weighted_rate: Array) -> Array:
    """Returns minus the weighted number of changes that wait at a time, which is the cost of delay per second.

    period in s, inf: never. Little's law: λ changes a second wait half a period each.
    """
    return np.asarray(-0.5 * weighted_rate * np.minimum(period, LONGEST_PERIOD_S))


def deadline_value(period: Array, weighted_rate: Array, deadline: Array) -> Array:
    """Returns the weighted number of changes per second that are found in time; period in s, inf: never."""
    with np.errstate(divide="ignore"):
        return np.asarray(weighted_rate * np.minimum(deadline / period, 1.0))
