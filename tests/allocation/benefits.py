"""The benefit of a budget over given rates, as the formulas say it: for comparison with what the daemon works out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.budget_split import Benefit, value
from pollerd.allocation.index import amplitude_and_rate, solve_price
from pollerd.allocation.objectives import TimelySites
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, TIMELY
from pollerd.allocation.slots import positive


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
