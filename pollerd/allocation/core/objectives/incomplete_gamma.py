"""Regularised incomplete gamma functions on arrays: the distribution of the age of the k-th newest Poisson event.

P(a, x) is the probability that a Gamma(a, 1) variable is at most x; for whole a, that a Poisson variable of mean x is
at least a. By the power series below x = a + 1 and Lentz's continued fraction above (Abramowitz & Stegun 6.5.29 and
6.5.31).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_SHIFT = 8
"""Stirling's series is used at arguments above this: its error there is below 1e-13."""
_NEGLIGIBLE = -50.0
"""Logarithm of a probability that is taken as 0."""
_PRECISION = 1e-15
_MOST_TERMS = 5_000
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
    for n in range(1, _MOST_TERMS):
        term *= x / (a + n)
        total += term
        if (term <= _PRECISION * total).all():
            break
    return total


def _fraction(a: Array, x: Array) -> Array:
    """Returns Γ(a + 1) e^x x^-a Q(a, x), float64[m], for x >= a + 1: a times the continued fraction of Γ(a, x)."""
    b = x + 1.0 - a
    c = np.full_like(x, 1.0 / _TINY)
    d = 1.0 / b
    total = d.copy()
    for n in range(1, _MOST_TERMS):
        numerator = -n * (n - a)
        b = b + 2.0
        d = numerator * d + b
        c = b + numerator / c
        d = 1.0 / np.where(np.abs(d) < _TINY, _TINY, d)
        c = np.where(np.abs(c) < _TINY, _TINY, c)
        factor = c * d
        total *= factor
        if (np.abs(factor - 1.0) <= 4 * _PRECISION).all():
            break
    return a * total
