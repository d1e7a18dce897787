"""Benefit of a budget: expected value per second at the optimal split, under uniform polling, and as scheduled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import amplitude_and_rate, solve_price
from pollerd.allocation.core.objectives.timely_sites import TimelySites
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, TIMELY
from pollerd.allocation.slots.validation import positive


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


def expected_benefit(
    rates: NDArray[np.float64],
    weight: NDArray[np.float64],
    cost: NDArray[np.float64],
    budget: float,
    objective: str = "changes",
    half_life: NDArray[np.float64] | None = None,
    deadline: NDArray[np.float64] | None = None,
) -> Benefit:
    """Returns the benefit of a budget (cost per second, > 0) over sites with estimated rates, all float64[n].

    Rows with a nan rate are left out of the sums and get a period of inf. For the actual schedule, apply `value` to the
    actual periods. deadline: float64[n] s, for the objective `deadline`; None: the default for all.
    """
    budget = positive("budget", budget)
    believed = np.where(np.isnan(rates), 0.0, rates)
    known = ~np.isnan(rates)
    cycle = np.full(len(believed), float(cost[known].sum()) / budget)
    if objective in TIMELY:
        due = np.full(len(believed), DEFAULT_DEADLINE_S) if deadline is None else deadline
        sites = TimelySites(weight * believed, cost, 0.0 * cost, due if objective == "deadline" else None)
        price, best = sites.split(budget)
        return Benefit(price, sites.value(best), sites.value(cycle), best)
    life = np.full(len(believed), np.nan) if half_life is None else half_life
    amplitude, rate = amplitude_and_rate(objective, believed, weight, life)
    price, best = solve_price(budget, amplitude, rate, cost)
    return Benefit(price, value(best, amplitude, rate), value(cycle, amplitude, rate), best)
