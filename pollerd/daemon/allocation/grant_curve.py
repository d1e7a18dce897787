"""What a node reports of its sites for its grant of the budget: their cost, and what more polls of them are worth."""

from __future__ import annotations

import asyncio

import numpy as np

from pollerd.allocation.core.price_curve import EMPTY, PriceCurve, price_curve
from pollerd.daemon.allocation.forecast import BeliefColumns, Forecast

_KNOWN_SHARE = 0.5
"""Share of the sites that must have been polled twice before the belief about them says what polls are worth."""


async def reported_curve(forecast: Forecast, whole: float) -> tuple[float, bytes | None]:
    """Returns cost and curve for a `GrantReport`, as the node's allocator now believes; works in a thread.

    whole: the budget of all nodes, polls per second: the curve reaches up to it.
    """
    belief = forecast.belief()
    curve = await asyncio.to_thread(curve_of, belief, whole)
    return float(belief.cost.sum()) * belief.factor, None if curve is None else curve.to_bytes()


def curve_of(belief: BeliefColumns, whole: float) -> PriceCurve | None:
    """Returns what budgets up to the whole one are worth to these sites; None if too little is known of them.

    Before polls teach otherwise a site is taken to change about once in a uniform cycle, which a small grant makes
    long: a node that has just begun would ask for little, and get little, for hours.

    Politeness, min_interval and min_yield bound what the sites can spend.
    """
    if not len(belief.slots):
        return EMPTY
    polled_twice = np.isfinite(belief.last_gap).mean()
    if np.isnan(belief.rates[0]).all() or polled_twice < _KNOWN_SHARE:
        return None
    return price_curve(belief.priced_sites(), belief.cost, whole, belief.factor)
