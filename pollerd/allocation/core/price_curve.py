"""What more budget is worth to one node: its shadow price at each budget, as a short table that others can read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.objectives.priced_sites import PricedSites
from pollerd.allocation.slots.validation import positive
from pollerd.errors import InvalidValueError

POINTS = 48
"""Prices at which the spending of a node is computed, besides both ends."""
SMALLEST_SHARE = 1 / 4096
"""Smallest budget of a curve, as a share of the whole budget: below it the price counts as constant."""
LEAST_PRICE = 1e-300
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
            and (prices >= LEAST_PRICE).all()
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
    found = [(spending(seldom), highest), (max(most, spending(seldom)), min(lowest, highest))]
    return _between(found, lambda price: spending(mixture.periods(price)))


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
    return PriceCurve(np.maximum.accumulate(budgets), np.maximum(np.minimum.accumulate(prices), LEAST_PRICE))
