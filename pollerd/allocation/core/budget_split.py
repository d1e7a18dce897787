"""Divides one budget among nodes so that one more poll per second is worth the same at each.

A node gives the shadow price of its budget as a curve (`PriceCurve`). The best division has one price θ at all nodes,
`Σ spending_i(θ) = budget`, but for nodes at their floor or at all that they can spend: what one allocator over all
sites would do, since that, too, has one price (`index.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.price_curve import LEAST_PRICE, PriceCurve
from pollerd.allocation.slots.validation import positive
from pollerd.errors import InvalidValueError

ROUND_ROBIN_SHARE = 0.1
"""Share of its round-robin budget that a node gets at least: `whittle` polls every site within ten cycles."""
EVEN_SHARE = 0.01
"""Share of an even split that a node gets at least, so that one without sites, or without a belief, can start."""
HELD_SHARE = 0.05
"""Largest change of a grant, as a share of it, for which no grant is changed."""
HELD_SUM = 0.99
"""Smallest share of the budget that grants must sum to if they are not to be changed."""
_HALVINGS = 200
_SAME = 1e-14
_ROUNDING = 1e-12
_BEYOND = 1e-9
"""Logarithm by which the search begins above the highest price, at which nothing is spent."""


@dataclass(frozen=True)
class BudgetDivision:
    """Grants of all nodes, and the price that they have in common."""

    grants: NDArray[np.float64]
    """float64[n] >= 0, cost per second; their sum is at most the budget."""
    price: float
    """Value of one more poll per second at all nodes above their floor and below what they can spend; 0: some budget
    is left that no node can spend with gain, and is divided evenly."""


def divide_budget(
    budget: float,
    cost: NDArray[np.float64],
    curves: Sequence[PriceCurve | None],
    held: NDArray[np.float64] | None = None,
) -> BudgetDivision:
    """Returns the grants of n nodes, n >= 1.

    budget: cost per second, > 0. cost float64[n] >= 0: of one poll of each site of a node. curves: of each node; None:
    not known (new, or of an allocator without a belief), such a node gets its round-robin share. held float64[n]: the
    grants of the last division, nan for nodes that were not in it; they stay if the best ones hardly differ. None: do
    not hold. Raises InvalidValueError.
    """
    budget = positive("budget", budget)
    _check(cost, curves)
    floors, ceilings = _bounds(budget, cost, curves)
    price, grants = _best(budget, floors, ceilings, curves)
    if held is not None and _hardly_differ(budget, held, grants):
        grants = held.astype(np.float64)
    return BudgetDivision(grants * min(1.0, budget / max(float(grants.sum()), 1e-300)), price)


def divide_reported(
    budget: float, cost: NDArray[np.float64], curves: Sequence[bytes | None], held: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Returns price and grants as `divide_budget` does, for curves as they are stored.

    A curve that another version wrote counts as not known.
    """
    found = divide_budget(budget, cost, [_known(curve) for curve in curves], held)
    return found.price, found.grants


def _known(curve: bytes | None) -> PriceCurve | None:
    try:
        return None if curve is None else PriceCurve.from_bytes(curve)
    except InvalidValueError:
        return None


def _check(cost: NDArray[np.float64], curves: Sequence[PriceCurve | None]) -> None:
    if not len(curves):
        raise InvalidValueError("curves", "those of one node at least", "none")
    if cost.shape != (len(curves),) or not (np.isfinite(cost) & (cost >= 0)).all():
        raise InvalidValueError("cost", f"{len(curves)} finite numbers of at least 0", cost.tolist())


def _bounds(
    budget: float, cost: NDArray[np.float64], curves: Sequence[PriceCurve | None]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the least and the most that each node gets while budget is scarce, float64[n] each."""
    total = float(cost.sum())
    cycle = budget * cost / total if total > 0 else np.full(len(cost), budget / len(cost))
    unknown = np.array([curve is None for curve in curves])
    reach = np.array([np.inf if curve is None else curve.reach for curve in curves])
    floors = np.maximum(np.minimum(cycle * ROUND_ROBIN_SHARE, reach), budget * EVEN_SHARE / len(cost))
    floors = np.where(unknown, np.maximum(cycle, floors), floors)
    floors *= min(1.0, budget / float(floors.sum()))
    return floors, np.where(unknown, floors, np.maximum(reach, floors))


def _best(
    budget: float,
    floors: NDArray[np.float64],
    ceilings: NDArray[np.float64],
    curves: Sequence[PriceCurve | None],
) -> tuple[float, NDArray[np.float64]]:
    """Returns the price and the grants at which the budget is spent; what no node can spend is divided evenly."""
    left = budget - float(ceilings.sum())
    known = [curve for curve in curves if curve is not None and curve.reach > 0]
    if left >= -_ROUNDING * budget or not known:
        return 0.0, ceilings + left / len(ceilings)

    def at(log_price: float) -> NDArray[np.float64]:
        spent = np.array([0.0 if curve is None else curve.spending(math.exp(log_price)) for curve in curves])
        return np.asarray(np.clip(spent, floors, ceilings))

    highest = max(float(curve.prices.max(initial=LEAST_PRICE)) for curve in known)
    low, high = math.log(LEAST_PRICE), math.log(highest) + _BEYOND
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(at(middle).sum()) > budget else (low, middle)
        if high - low <= _SAME * max(1.0, abs(low)):
            break
    # Where many sites are alike, spending jumps between two neighbouring prices: the budget lies between both sides.
    most, least = at(low), at(high)
    room = float((most - least).sum())
    part = min(max((budget - float(least.sum())) / room, 0.0), 1.0) if room > 0 else 0.0
    return math.exp(high), least + part * (most - least)


def _hardly_differ(budget: float, held: NDArray[np.float64], grants: NDArray[np.float64]) -> bool:
    if np.isnan(held).any() or not HELD_SUM * budget <= float(held.sum()) <= budget:
        return False
    return bool((np.abs(grants - held) <= np.maximum(HELD_SHARE * held, budget * EVEN_SHARE / len(held))).all())
