"""Periods at which an allocator would poll each site if nothing held it back."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.core.crossing_times import CrossingTimes
from pollerd.allocation.core.index import share_out

_CYCLES = 1e4
"""Gaps from a uniform cycle divided by this to a uniform cycle times this are tabulated."""
_COLUMNS = 64
_SPENT_UP_TO = 1e-7
_BEYOND = 1e-4
_WIDER = 30.0


def gaps_around(cycle: float, most: float = math.inf, jumps: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Returns gaps in s, ascending, at which a table has urgencies, up to `most`; cycle: the uniform cycle, s.

    jumps: further gaps float64[m] s, of `Allocator.urgency_jumps`; those beyond the others stay out.
    """
    shortest = cycle / _CYCLES
    gaps = np.geomspace(shortest, max(min(cycle * _CYCLES, most), 2 * shortest), _COLUMNS)
    if jumps is None or not len(jumps):
        return gaps
    return np.unique(np.concatenate([gaps, jumps[(jumps > gaps[0]) & (jumps < gaps[-1])]]))


def desired_periods(
    allocator: Allocator,
    slots: NDArray[np.int64],
    cost: NDArray[np.float64],
    floor: NDArray[np.float64],
    budget: float,
    now: float,
) -> NDArray[np.float64]:
    """Returns seconds float64[k] between polls of slots int64[k] at a budget (cost per second) for these; inf: never.

    cost float64[k] > 0; floor float64[k] s: the shortest periods allowed. If the policy has `shares`, they are its
    frequencies. Else it polls the site with the largest urgency, so with its learned state fixed each site is polled
    when its urgency reaches one common level: the level at which the budget is spent.
    """
    if not len(slots):
        return np.empty(0)
    shares = allocator.shares(slots)
    cycle = float(cost.sum()) / budget
    if shares is None:
        gaps = gaps_around(cycle, jumps=allocator.urgency_jumps)
        urgency = [allocator.urgency_of(slots, np.full(len(slots), gap), now) for gap in gaps]
        crossings = CrossingTimes(gaps, np.fmax(np.stack(urgency, axis=1), 0.0))
        low, high = crossings.range
        at = crossings.at
    else:
        with np.errstate(divide="ignore"):
            usual = 1.0 / shares
        low = high = float(np.log(cycle))

        def at(log_level: float | NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.exp(log_level) * usual)

    within = low - _WIDER, high + (_BEYOND if shares is None else _WIDER)
    _, every = share_out(budget, cost, lambda x: np.maximum(at(x), floor), within, _SPENT_UP_TO)
    return np.maximum(every, floor)
