"""The one index behind every objective, and the price at which a budget is spent best (theory.md 1; [E] theorem 1).

`index(τ) = (A / C) g(r τ)`: what one more poll per second of a site is worth when its last poll is τ ago. At the best
split all sites are polled when their index reaches one level θ, the price of a poll.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError

OBJECTIVES = ("changes", "freshness", "interest")
DEFAULT_HALF_LIFE_S = 86_400.0
"""Where an interest is given no half-life: news is worth half after a day."""

_NARROW = 0.5
"""Width of an interval in which spending is followed by its slope, ..."""
_MOST_FOLLOWED = 18
"""... as often as this."""


def g(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """`1 - (1 + z) e^-z` for z >= 0, any shape; rises from 0 to 1. Series below 0.01, where the formula cancels."""
    z = np.asarray(z, np.float64)
    small = np.minimum(z, 0.01)
    series = small * small * (0.5 - small * (1 / 3 - small * (0.125 - small / 30)))
    capped = np.minimum(z, 700.0)
    return np.where(z < 0.01, series, 1.0 - (1.0 + capped) * np.exp(-capped))


def g_inverse(y: NDArray[np.float64], complement: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """The z >= 0 with g(z) = y, for 0 <= y; inf where y >= 1. Newton's method in log z; error < 1e-10 of z.

    complement is 1 - y, where it is known better than the subtraction would give it.
    """
    y = np.asarray(y, np.float64)
    rest = 1.0 - y if complement is None else np.asarray(complement, np.float64)
    low = y < 0.26
    below, above = np.clip(np.where(low, y, 0.1), 1e-300, None), np.clip(np.where(low, 0.5, rest), 1e-300, 1.0)
    root, tail = np.sqrt(2 * below), -np.log(above)
    z = np.where(low, root * (1 + root / 3), tail + np.log1p(tail) + 0.3)
    for _ in range(40):
        # below, g is compared with y; above, log(1 - g) with log(1 - y), which keeps its digits as y nears 1
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
    """A and r of the index for each site (table in theory.md 1), float64[n] each, or of any shapes that fit together.

    rates believed changes per second >= 0; half_life in s, nan: the default. For `interest` the rate of arrivals
    stands in the amplitude, the decay μ = ln 2 / half_life in g, and an item's mean value is the weight.
    """
    if objective == "changes":
        return weight, rates
    if objective == "freshness":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(rates > 0, weight / rates, 0.0), rates
    if objective == "interest":
        decay = math.log(2) / np.where(np.isnan(half_life), DEFAULT_HALF_LIFE_S, half_life)
        return weight * rates / decay, decay
    raise InvalidValueError("objective", f"one of {', '.join(OBJECTIVES)}", objective)


def index(
    elapsed: NDArray[np.float64],
    amplitude: NDArray[np.float64],
    rate: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> NDArray[np.float64]:
    """`(A / C) g(r τ)`, float64[n]; elapsed τ in s >= 0."""
    return amplitude / cost * g(rate * elapsed)


def periods(
    price: float,
    amplitude: NDArray[np.float64],
    rate: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Seconds between polls of each site at price θ: `g⁻¹(θ C / A) / r`, inf where θ C >= A or nothing changes."""
    alive = (amplitude > 0) & (rate > 0)
    share = np.where(alive, price * cost / np.where(alive, amplitude, 1.0), 1.0)
    return np.where(alive, g_inverse(share) / np.where(alive, rate, 1.0), np.inf)


def solve_price(
    budget: float,
    amplitude: NDArray[np.float64],
    rate: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64]]:
    """The price θ with `Σ C / period(θ) = budget`, and the periods float64[n] in s; (0, inf) without a worthy site.

    Sought in the logit of θ / max(A / C): a tight budget has θ so near that maximum that θ alone could not tell.
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
    """The x at which `Σ C / periods_at(x) = budget`, up to a share `error` of it, and the periods float64[n] in s.

    Spending must fall with x; where it does not reach the budget within the two ends, the nearer end is meant.
    """
    low, high = _bracket(budget, lambda x: float((cost / periods_at(x)).sum()), within, error)
    # where the last site comes in, spending may leap within one bit of x: share out between the two sides of it
    often, seldom = (1.0 / periods_at(x) for x in (low, high))
    most, least = float(cost @ often), float(cost @ seldom)
    part = (budget - least) / (most - least) if most > least else 1.0
    with np.errstate(divide="ignore"):
        return (low + high) / 2, 1.0 / (seldom + min(max(part, 0.0), 1.0) * (often - seldom))


def _bracket(
    budget: float, spending: Callable[[float], float], within: tuple[float, float], error: float
) -> tuple[float, float]:
    """The ends of an interval, next to nothing wide, between which `spending` falls through the budget.

    Halved while it is wide, then the false position with the Illinois rule, which needs a fifth of the evaluations;
    halved again where spending leaps, because there is no slope to follow.
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
    """Periods at `θ = top / (1 + e^-logit)`, with scaled = top C / A >= 1."""
    share, rest = 1.0 / (1.0 + math.exp(-logit)), 1.0 / (1.0 + math.exp(logit))
    z = g_inverse(scaled * share, (1.0 - scaled) * share + rest)
    return np.where(alive, z / np.where(alive, rate, 1.0), np.inf)
