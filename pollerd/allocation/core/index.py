"""The index of all objectives, and the shadow price at which a budget is spent best (theory.md 1; [E] theorem 1).

`index(τ) = (A / C) g(r τ)` is the value of one more poll per second of a site at gap τ since its last poll, with
amplitude A, cost C and rate r. At the optimal split all sites are polled when their index reaches the price θ.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.registered import G_OBJECTIVES
from pollerd.errors import InvalidValueError

DEFAULT_HALF_LIFE_S = 86_400.0
"""Default half-life for `interest`: news loses half its value in a day."""

_NARROW = 0.5
"""Width of the interval below which the search for the price uses the slope of spending."""
_MOST_FOLLOWED = 18
"""Largest number of such steps."""


def g(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `1 - (1 + z) e^-z` for z >= 0, any shape; rises from 0 to 1. Series below 0.01, to avoid cancellation."""
    z = np.asarray(z, np.float64)
    small = np.minimum(z, 0.01)
    series = small * small * (0.5 - small * (1 / 3 - small * (0.125 - small / 30)))
    capped = np.minimum(z, 700.0)
    return np.where(z < 0.01, series, 1.0 - (1.0 + capped) * np.exp(-capped))


def g_inverse(y: NDArray[np.float64], complement: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Returns the z >= 0 with g(z) = y, for 0 <= y; inf where y >= 1. Newton's method in log z; error < 1e-10 of z.

    complement is 1 - y, for callers that know it more precisely than the subtraction would give it.
    """
    y = np.asarray(y, np.float64)
    rest = 1.0 - y if complement is None else np.asarray(complement, np.float64)
    low = y < 0.26
    below, above = np.clip(np.where(low, y, 0.1), 1e-300, None), np.clip(np.where(low, 0.5, rest), 1e-300, 1.0)
    root, tail = np.sqrt(2 * below), -np.log(above)
    z = np.where(low, root * (1 + root / 3), tail + np.log1p(tail) + 0.3)
    for _ in range(40):
        # low branch: compares g with y; high branch: compares log(1 - g) with log(1 - y), precise as y nears 1
        with np.errstate(over="ignore"):
            down = (g(z) - below) / np.maximum(z * z * np.exp(-np.minimum(z, 700.0)), 1e-320)
        step = np.clip(np.where(low, down, (z - np.log1p(z) - tail) * (1 + z) / (z * z)), -1.0, 1.0)
        z = z * np.exp(-step)
        if np.max(np.abs(step), initial=0.0) < 1e-13:
            break
    return np.where(rest <= 0, np.inf, np.where(y <= 0, 0.0, z))


def amplitude_and_rate(
    objective: str,
    rates: NDArray[np.float64],
    weight: NDArray[np.float64],
    half_life: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns A and r of the index for each site (table in theory.md 1), float64[n] each, or of broadcastable shapes.

    rates: estimated changes per second >= 0; half_life in s, nan: the default. For `interest` the arrival rate is part
    of the amplitude, g uses the decay μ = ln 2 / half_life, and the weight is the mean value of an item.
    """
    if objective == "changes":
        return weight, rates
    if objective == "freshness":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(rates > 0, weight / rates, 0.0), rates
    if objective == "interest":
        decay = decay_rates(half_life)
        return weight * rates / decay, decay
    raise InvalidValueError("objective", f"one of {', '.join(G_OBJECTIVES)}", objective)


def decay_rates(half_life: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the decay rates μ of interest, 1/s, for half-lives in s, nan: the default; float64 of the same shape."""
    return np.asarray(math.log(2) / np.where(np.isnan(half_life), DEFAULT_HALF_LIFE_S, half_life))


def index(
    elapsed: NDArray[np.float64],
    amplitude: NDArray[np.float64],
    rate: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns `(A / C) g(r τ)`, float64[n]; elapsed τ in s >= 0."""
    return amplitude / cost * g(rate * elapsed)


def periods(
    price: float,
    amplitude: NDArray[np.float64],
    rate: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns the seconds between polls of each site at price θ: `g⁻¹(θ C / A) / r`, inf where θ C >= A or r = 0."""
    alive = (amplitude > 0) & (rate > 0)
    share = np.where(alive, price * cost / np.where(alive, amplitude, 1.0), 1.0)
    return np.where(alive, g_inverse(share) / np.where(alive, rate, 1.0), np.inf)


def solve_price(
    budget: float,
    amplitude: NDArray[np.float64],
    rate: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64]]:
    """Returns the price θ with `Σ C / period(θ) = budget`, and the periods float64[n] in s; (0, inf) without any value.

    Searches the logit of θ / max(A / C): with a tight budget θ is so near that maximum that θ itself lacks digits.
    """
    alive = (amplitude > 0) & (rate > 0)
    value_per_cost = np.where(alive, amplitude / cost, 0.0)
    top = float(value_per_cost.max(initial=0.0))
    if top <= 0:
        return 0.0, np.full(len(value_per_cost), np.inf)
    scaled = top / np.where(alive, value_per_cost, 1.0)
    logit, every = share_out(budget, cost, lambda x: _periods_at(x, scaled, alive, rate), (-690.0, 690.0))
    return top / (1.0 + math.exp(-logit)), every


def share_out(
    budget: float,
    cost: NDArray[np.float64],
    periods_at: Callable[[float], NDArray[np.float64]],
    within: tuple[float, float],
    error: float = 1e-14,
) -> tuple[float, NDArray[np.float64]]:
    """Returns the x with `Σ C / periods_at(x) = budget`, within a share `error` of it, and the periods float64[n] s.

    Spending must fall with x; if it does not reach the budget between the two ends, returns the nearer end.
    """
    low, high = _bracket(budget, lambda x: float((cost / periods_at(x)).sum()), within, error)
    # at the price where the last site enters, spending may jump within one bit of x: interpolate between both sides
    often, seldom = (1.0 / periods_at(x) for x in (low, high))
    most, least = float(cost @ often), float(cost @ seldom)
    part = (budget - least) / (most - least) if most > least else 1.0
    with np.errstate(divide="ignore"):
        return (low + high) / 2, 1.0 / (seldom + min(max(part, 0.0), 1.0) * (often - seldom))


def _bracket(
    budget: float, spending: Callable[[float], float], within: tuple[float, float], error: float
) -> tuple[float, float]:
    """Returns the ends of a very narrow interval in which `spending` falls through the budget.

    Bisection while it is wide, then regula falsi with the Illinois rule, which needs a fifth of the evaluations;
    bisection again if spending jumps, because there is no slope to use.
    """
    (low, high), at_low, at_high, last, followed = within, 1.0, -1.0, 0, 0
    for _ in range(120):
        x = (low + high) / 2
        if high - low < _NARROW and followed < _MOST_FOLLOWED:
            followed += 1
            x = min(max((low * at_high - high * at_low) / (at_high - at_low), low), high)
        spent = spending(x)
        excess = (spent - budget) / (spent + budget)
        if abs(excess) < error:
            return x, x
        if excess > 0:
            low, at_low, at_high, last = x, excess, at_high / (2 if last > 0 else 1), 1
        else:
            high, at_high, at_low, last = x, excess, at_low / (2 if last < 0 else 1), -1
        if high - low <= 1e-15 * max(1.0, abs(x)):
            break
    return low, high


def _periods_at(
    logit: float, scaled: NDArray[np.float64], alive: NDArray[np.bool_], rate: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the periods at `θ = top / (1 + e^-logit)`, with scaled = top C / A >= 1."""
    share, rest = 1.0 / (1.0 + math.exp(-logit)), 1.0 / (1.0 + math.exp(logit))
    z = g_inverse(scaled * share, (1.0 - scaled) * share + rest)
    return np.where(alive, z / np.where(alive, rate, 1.0), np.inf)
