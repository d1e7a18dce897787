"""The division of one budget among nodes, such that one more poll per second is worth the same at each.

A node gives the shadow price of its budget as a curve (`PriceCurve`). The best division has one price θ at all nodes,
`Σ spending_i(θ) = budget`, but for nodes at their floor or at all that they can spend: the division that one allocator
over all sites would make, since that, too, has one price (`index.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.objectives import PricedSites
from pollerd.allocation.slots import positive
from pollerd.errors import InvalidValueError

# Price curves: the shadow price at each budget of one node, as a short table that is sent to other nodes.

POINTS = 48
"""Prices at which the spending of a node is computed, besides both ends."""
SMALLEST_SHARE = 1 / 4096
"""Smallest budget of a curve, as a share of the whole budget: below it the price counts as constant."""
MIN_PRICE = 1e-300
"""Smallest price of a curve."""
_VERSION = b"\x01"
_ALIKE = 1e-12
"""Share by which two prices differ between which no third is sought: spending jumps there."""


@dataclass(frozen=True)
class PriceCurve:
    """The shadow price of a node's budget: the value of one more poll per second, at each budget.

    budgets float64[M], ascending, > 0, in cost per second. prices float64[M], > 0, not ascending: the price at each
    budget. Between two budgets the logarithm of the price falls linearly; below the first it is the first; beyond the
    last the node can spend nothing, and the price is 0.
    """

    budgets: NDArray[np.float64]
    prices: NDArray[np.float64]

    def __post_init__(self) -> None:
        budgets, prices = self.budgets, self.prices
        if not (
            budgets.shape == prices.shape
            and budgets.ndim == 1
            and np.isfinite([budgets, prices]).all()
            and (budgets > 0).all()
            and (prices >= MIN_PRICE).all()
            and (np.diff(budgets) >= 0).all()
            and (np.diff(prices) <= 0).all()
        ):
            raise InvalidValueError("curve", "ascending budgets > 0 with finite prices > 0 that do not rise", "others")

    @property
    def reach(self) -> float:
        """The largest budget that the node can spend with gain, in cost per second; 0: none."""
        return float(self.budgets[-1]) if len(self.budgets) else 0.0

    def price_at(self, budget: float) -> float:
        """Returns the price at a budget >= 0; 0 beyond `reach`."""
        if budget > self.reach or not len(self.budgets):
            return 0.0
        return math.exp(float(np.interp(budget, self.budgets, np.log(self.prices))))

    def spending(self, price: float) -> float:
        """Returns the budget at which the price is this one, > 0; falls with the price, from `reach` to 0."""
        if not len(self.budgets):
            return 0.0
        falling = np.log(self.prices)[::-1]
        return float(np.interp(math.log(price), falling, self.budgets[::-1], left=self.reach, right=0.0))

    def to_bytes(self) -> bytes:
        """Returns the curve as bytes, 8 a point: budgets and prices as little-endian float32."""
        return _VERSION + np.concatenate([self.budgets, self.prices]).astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> PriceCurve:
        """Returns the curve of `to_bytes`. Raises InvalidValueError for another version and for damaged bytes."""
        if data[:1] != _VERSION or len(data) % 8 != 1:
            raise InvalidValueError("curve", "a curve of this version", f"{len(data)} others")
        numbers = np.frombuffer(data, "<f4", offset=1).astype(np.float64)
        return cls(numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :])


EMPTY = PriceCurve(np.empty(0), np.empty(0))
"""The curve of a node that gains nothing from any budget."""


def price_curve(mixture: PricedSites, cost: NDArray[np.float64], whole: float, factor: float = 1.0) -> PriceCurve:
    """Returns the curve of a node whose sites have these indices, for budgets up to the whole one.

    cost float64[k] > 0 of a poll of each site. whole: the budget of all nodes, cost per second, > 0. factor: cost of
    all sites of the node divided by the cost of these, >= 1, where they are a sample. Evaluates the sites' periods some
    hundred times.
    """
    whole = positive("whole", whole)
    if not len(cost):
        return EMPTY

    def spending(periods: NDArray[np.float64]) -> float:
        return float((cost / periods).sum()) * factor

    lowest, often = mixture.split(whole / factor)
    most = spending(often)
    if not most > 0:
        return EMPTY
    highest, seldom = mixture.split(min(whole * SMALLEST_SHARE, most / 2) / factor)
    if lowest <= 0:  # floors keep it from spending the whole: the price falls to 0 at `most`
        lowest = _last_price(mixture, spending, highest, most)
    ends = [(spending(seldom), highest), (max(most, spending(seldom)), min(lowest, highest))]
    return _between(ends, lambda price: spending(mixture.periods(price)))


def _last_price(
    mixture: PricedSites, spending: Callable[[NDArray[np.float64]], float], highest: float, most: float
) -> float:
    """Returns a price > 0 at which nearly all that the floors let the node spend is spent."""
    price = highest
    for _ in range(60):
        price /= 4.0
        if spending(mixture.periods(price)) >= most * (1 - 1e-6):
            break
    return price


def _between(ends: list[tuple[float, float]], spending_at: Callable[[float], float]) -> PriceCurve:
    """Returns the curve through two (budget, price) and `POINTS` between, halving the widest interval of budgets."""
    points = list(ends)
    for _ in range(POINTS):
        gaps = [
            later[0] / earlier[0] if later[1] < earlier[1] * (1 - _ALIKE) else 0.0
            for earlier, later in itertools.pairwise(points)
        ]
        widest = int(np.argmax(gaps))
        if gaps[widest] <= 1.0 + 1e-9:
            break
        (least, high), (most, low) = points[widest : widest + 2]
        price = math.sqrt(high * low)
        points.insert(widest + 1, (min(max(spending_at(price), least), most), price))
    budgets, prices = np.array(points).T
    return PriceCurve(np.maximum.accumulate(budgets), np.maximum(np.minimum.accumulate(prices), MIN_PRICE))


ROUND_ROBIN_SHARE = 0.1
"""Share of its round-robin budget that a node gets at least: `whittle` polls every site within ten cycles."""
EVEN_SHARE = 0.01
"""Share of an even split that a node gets at least, so that one without sites, or without a belief, can start."""
HELD_SHARE = 0.05
"""Largest change of a grant, as a share of it, for which no grant is changed."""
HELD_SUM = 0.99
"""Smallest share of the budget that grants must sum to if they are not to be divided anew but for what is missing."""
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
    able: NDArray[np.float64] | None = None,
) -> BudgetDivision:
    """Returns the grants of n nodes, n >= 1.

    budget: cost per second, > 0. cost float64[n] >= 0: of one poll of each site of a node. curves: of each node; None:
    not known (new, or of an allocator without a belief), such a node gets its round-robin share. held float64[n]: the
    grants of the last division, nan for nodes that were not in it; their proportions stay if the best ones hardly
    differ. None: do not hold. able float64[n] > 0: the most that each node can spend, whatever it is worth: a slow one
    gets no more, so that the others have the rest; inf: whatever it is given. None: all can. Raises InvalidValueError.
    """
    budget = positive("budget", budget)
    _check(cost, curves)
    able = np.full(len(cost), np.inf) if able is None else able
    floors, ceilings = _bounds(budget, cost, curves, able)
    price, grants = _best(budget, floors, ceilings, curves, able)
    if held is not None and _hardly_differ(budget, held, grants):
        # A node that left, or a higher budget, may have left a little of it to nobody.
        missing = float(held.sum()) < budget * (1 - _ROUNDING)
        grants = held * (budget / float(held.sum()) if missing else 1.0)
    return BudgetDivision(grants * min(1.0, budget / max(float(grants.sum()), 1e-300)), price)


def divide_reported(
    budget: float,
    cost: NDArray[np.float64],
    curves: Sequence[bytes | None],
    held: NDArray[np.float64],
    able: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64]]:
    """Returns price and grants as `divide_budget` does, for curves as they are stored.

    A curve that another version wrote counts as not known.
    """
    division = divide_budget(budget, cost, [_known(curve) for curve in curves], held, able)
    return division.price, division.grants


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
    budget: float, cost: NDArray[np.float64], curves: Sequence[PriceCurve | None], able: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the least and the most that each node gets while budget is scarce, float64[n] each."""
    total = float(cost.sum())
    cycle = budget * cost / total if total > 0 else np.full(len(cost), budget / len(cost))
    unknown = np.array([curve is None for curve in curves])
    reach = np.array([np.inf if curve is None else curve.reach for curve in curves])
    floors = np.maximum(np.minimum(cycle * ROUND_ROBIN_SHARE, reach), budget * EVEN_SHARE / len(cost))
    floors = np.minimum(np.where(unknown, np.maximum(cycle, floors), floors), able)
    floors *= min(1.0, budget / float(floors.sum()))
    return floors, np.where(unknown, floors, np.maximum(np.minimum(reach, able), floors))


def _best(
    budget: float,
    floors: NDArray[np.float64],
    ceilings: NDArray[np.float64],
    curves: Sequence[PriceCurve | None],
    able: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64]]:
    """Returns the price and the grants at which the budget is spent.

    What no node can spend with gain is divided evenly among those that are able to spend whatever they are given; if
    there are none, among all.
    """
    left = budget - float(ceilings.sum())
    known = [curve for curve in curves if curve is not None and curve.reach > 0]
    if left >= -_ROUNDING * budget or not known:
        can = np.isinf(able) if np.isinf(able).any() else np.ones(len(able), bool)
        return 0.0, ceilings + np.where(can, left / can.sum(), 0.0)

    def at(log_price: float) -> NDArray[np.float64]:
        spent = np.array([0.0 if curve is None else curve.spending(math.exp(log_price)) for curve in curves])
        return np.asarray(np.clip(spent, floors, ceilings))

    # Against the floors: where they alone are the budget, the sum of both, rounded, may exceed it at every price.
    to_share = max(budget - float(floors.sum()), 0.0)
    highest = max(float(curve.prices.max(initial=MIN_PRICE)) for curve in known)
    low, high = math.log(MIN_PRICE), math.log(highest) + _BEYOND
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if float((at(middle) - floors).sum()) > to_share else (low, middle)
        if high - low <= _SAME * max(1.0, abs(low)):
            break
    # Where many sites are alike, spending jumps between two neighbouring prices: the budget lies between both sides.
    most, least = at(low), at(high)
    room = float((most - least).sum())
    part = min(max((budget - float(least.sum())) / room, 0.0), 1.0) if room > 0 else 0.0
    return math.exp(high), least + part * (most - least)


def _hardly_differ(budget: float, held: NDArray[np.float64], grants: NDArray[np.float64]) -> bool:
    if np.isnan(held).any() or not HELD_SUM * budget <= float(held.sum()) <= budget * (1 + _ROUNDING):
        return False
    return bool((np.abs(grants - held) <= np.maximum(HELD_SHARE * held, budget * EVEN_SHARE / len(held))).all())


# Benefit of a budget: expected value per second at the optimal split, under uniform polling, and as scheduled.


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
