"""[A] theorem 2 as a numerical check: locally optimal splits at all nodes of the hierarchy are the global optimum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.htraa.schemes import PAPER
from pollerd.lab.experiments.results import Results

MATERIALS = 8
AWAY, VALUE = "largest difference of an amount", "Σ x f'(x)"
EXACT = 1e-6
_HALVINGS = 30
UnitValue = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
"""`f'_i(x_i)`, decreasing in the amount: (parameters float64[k], amounts float64[k]) -> float64[k]."""


def detection(rate: NDArray[np.float64], amount: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `1 - q^(1/x)` with `rate = -ln q`."""
    return np.asarray(-np.expm1(-rate / np.maximum(amount, 1e-12)))


UNIT_VALUES: Mapping[str, UnitValue] = {
    "web polling, 1 - q^(1/x)": detection,
    "exponential, e^(-s x)": lambda s, x: np.asarray(np.exp(-10 * s * x)),
    "hyperbolic, 1 / (1 + s x)": lambda s, x: np.asarray(1.0 / (1.0 + 20 * s * x)),
    "linear, 1 - s x": lambda s, x: np.asarray(1.0 - s * x),
}


def by_hierarchy(unit: UnitValue, s: NDArray[np.float64], capacity: float) -> NDArray[np.float64]:
    """Returns the amounts float64[n] where each node has equalised the unit values of its halves, float64[n].

    The unit value of a half is that of its materials, weighted by their share of it ([A] (22)), at its own local
    optimum for the capacity that the node gives it. s float64[n]: n a power of two.
    """
    if len(s) == 1:
        return np.array([capacity])
    half = len(s) // 2
    low, high = 0.0, capacity
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        left, right = by_hierarchy(unit, s[:half], middle), by_hierarchy(unit, s[half:], capacity - middle)
        ahead = _composite(unit, s[:half], left) > _composite(unit, s[half:], right)
        low, high = (middle, high) if ahead else (low, middle)
    return np.concatenate([left, right])


def _composite(unit: UnitValue, s: NDArray[np.float64], amounts: NDArray[np.float64]) -> float:
    total = float(amounts.sum())
    weights = amounts / total if total > 0 else np.full(len(s), 1.0 / len(s))
    return float((weights * unit(s, amounts)).sum())


def by_lagrange(unit: UnitValue, s: NDArray[np.float64], capacity: float) -> NDArray[np.float64]:
    """Returns the amounts float64[n] at which all unit values equal one multiplier, or the amount is 0."""
    low, high = 0.0, 1.0
    for _ in range(6 * _HALVINGS):
        price = (low + high) / 2
        amounts = _amounts_at(unit, s, price, capacity)
        low, high = (price, high) if amounts.sum() > capacity else (low, price)
    return amounts


def _amounts_at(unit: UnitValue, s: NDArray[np.float64], price: float, most: float) -> NDArray[np.float64]:
    low, high = np.zeros(len(s)), np.full(len(s), most)
    for _ in range(3 * _HALVINGS):
        middle = (low + high) / 2
        above = unit(s, middle) > price
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low


class Theorem2(Experiment):
    """Rows are families of unit values, with random parameters in random order."""

    name = "htraa-theorem-2"
    title = f"the hierarchy's local optima are the global one, {MATERIALS} materials"
    source = f"{PAPER}, theorem 2"
    runs: Mapping[Size, int] = {"quick": 1, "full": 10}
    remarks = (
        f"{MATERIALS} materials, capacity 1, parameters s drawn from .05 to 1 in random order (no order of the leaves "
        "is assumed, as [A]'s remark 2 says). Nothing learns: each node splits its capacity by bisection, as its "
        "automaton does in the long run (theorem 1)."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell(family) for family in UNIT_VALUES]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        s = np.random.default_rng(seed).uniform(0.05, 1.0, MATERIALS)
        unit = UNIT_VALUES[cell.row]
        local, best = by_hierarchy(unit, s, 1.0), by_lagrange(unit, s, 1.0)
        return RunOutcome({AWAY: float(np.abs(local - best).max()), VALUE: float((best * unit(s, best)).sum())})

    def claims(self, results: Results) -> Sequence[Claim]:
        away = max(results.value(row, AWAY) for row in results.rows)
        text = "if every automaton has found its local solution, the hierarchy has found the global one"
        return (Claim(text, away < EXACT, f"amounts differ by {away:.1e} at most"),)


THEOREM_2 = Theorem2()
