"""[B] appendix A: DET-KS, which takes the best step at a time, beside the best of all mixes of the same steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.periodic import det_ks
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, Statistic, cell
from pollerd.lab.experiments.gpoks.play import product
from pollerd.lab.experiments.gpoks.tables import THESIS
from pollerd.lab.experiments.results import Results

MATERIALS, STEPS = 3, 20
SHARE, LEAST = "mean share of the best mix", "least of all runs"
CONCAVE, POLLING, FALLING = "concave unit values", "unit values of polling", "falling unit values"
EXACT = 1e-9
_AMOUNTS = np.arange(STEPS + 1) / STEPS


def concave(rng: np.random.Generator) -> NDArray[np.float64]:
    """Draws unit values that fall, and fall more steeply from step to step: the condition of the proof."""
    steeper = np.cumsum(rng.exponential(size=(MATERIALS, STEPS)), axis=1)
    fallen = np.concatenate([np.zeros((MATERIALS, 1)), np.cumsum(steeper, axis=1)], axis=1)
    return np.asarray(rng.uniform(0.2, 1.0, (MATERIALS, 1)) * (1.0 - fallen / fallen[:, -1:]))


def polling(rng: np.random.Generator) -> NDArray[np.float64]:
    """Draws pages: the unit value of an amount x is `1 - q^(1/x)`, which is not concave."""
    rate = rng.exponential(size=(MATERIALS, 1))
    return np.asarray(-np.expm1(-rate / np.maximum(_AMOUNTS, 1e-12)))


def falling(rng: np.random.Generator) -> NDArray[np.float64]:
    """Draws unit values that fall by steps of any size, as the functions of GPOKS that are kept do."""
    fall = rng.exponential(size=(MATERIALS, STEPS + 1)) ** 3
    return np.asarray(1.0 - np.cumsum(fall, axis=1) / fall.sum(1, keepdims=True))


_FAMILIES: Mapping[str, Callable[[np.random.Generator], NDArray[np.float64]]] = {
    CONCAVE: concave,
    POLLING: polling,
    FALLING: falling,
}


def best_of_all(values: NDArray[np.float64]) -> float:
    """Returns the highest Σ values[i, k_i] of all mixes with Σ k_i = `STEPS`; values [`MATERIALS`, `STEPS` + 1]."""
    cuts = np.array(list(combinations(range(STEPS + MATERIALS - 1), MATERIALS - 1)))
    edges = np.pad(cuts, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, STEPS + MATERIALS - 1)))
    return float(values[np.arange(MATERIALS), np.diff(edges, axis=1) - 1].sum(1).max())


class GreedyKnapsack(Experiment):
    """Rows are families of unit values f; the value of an amount x is x f(x), as in the appendix."""

    name = "gpoks-appendix-a"
    title = f"DET-KS beside all mixes of {MATERIALS} materials in steps of 1/{STEPS}"
    source = f"{THESIS}, appendix A"
    runs: Mapping[Size, int] = {"quick": 50, "full": 1000}
    remarks = (
        "Nothing is learned. The proof asks that the unit values be concave, so that each step of a material gains "
        "less than the one before. Those of polling are not concave, but their steps gain less and less all the same. "
        "Unit values that fall in any way, which is all that GPOKS asks of its draws, have neither."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell(family) for family in _FAMILIES]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        unit_values = _FAMILIES[cell.row](np.random.default_rng(seed))
        values = _AMOUNTS * unit_values
        taken = det_ks(product(unit_values, _AMOUNTS), STEPS)
        share = float(values[np.arange(MATERIALS), taken].sum()) / best_of_all(values)
        return RunOutcome({SHARE: share, LEAST: share})

    def statistic(self, row: str, column: str) -> Statistic:
        return "least" if column == LEAST else "mean"

    def claims(self, results: Results) -> Sequence[Claim]:
        least = results.value(CONCAVE, LEAST)
        return (
            Claim("with concave unit values DET-KS finds the best mix", least > 1 - EXACT, f"{least:.6f} at least"),
        )


GREEDY_KNAPSACK = GreedyKnapsack()
