"""Benefit of a budget: expected value per second at the optimal split, under uniform polling, and as scheduled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Benefit:
    """Figures under believed rates. Values are per second: detections for `changes`, weighted; below 0 for `delay`."""

    price: float
    """Shadow price θ: the value of one more unit of cost per second."""
    best: float
    """Expected value per second when each site is polled at its period(θ)."""
    uniform: float
    """Expected value per second when all sites have the same period."""
    periods: NDArray[np.float64]
    """float64[n] s between polls of each site at the optimal split; inf: never."""


def value(period: NDArray[np.float64], amplitude: NDArray[np.float64], rate: NDArray[np.float64]) -> float:
    """Returns the expected value per second, `Σ A (1 - e^{-r τ}) / τ`, for polls of each site every τ = `period` s."""
    finite = np.isfinite(period) & (period > 0)
    gap = np.where(finite, period, 1.0)
    return float(np.where(finite, amplitude * -np.expm1(-rate * gap) / gap, 0.0).sum())
