"""[B]'s table 8.1: running time with regression on counts and sums, and with regression on every observation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.gpoks.regression import (
    GaussianBelief,
    IndexSet,
    Kernel,
    believe,
    index_set,
    regress,
    value_functions,
)
from pollerd.allocation.periodic import det_ks
from pollerd.lab.environments.knapsack import Knapsack
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, PublishedValue, RunOutcome, Size, cell
from pollerd.lab.experiments.gpoks.play import POINTS
from pollerd.lab.experiments.gpoks.printed import MIDDLE, PAIRS, SECONDS
from pollerd.lab.experiments.gpoks.tables import THESIS
from pollerd.lab.experiments.results import Results

FAST, REGULAR = "FAST-GPOKS", "REGULAR-GPOKS"
_STEPS: Mapping[Size, Mapping[str, tuple[int, ...]]] = {
    "quick": {FAST: (10, 100, 1000), REGULAR: (10, 100)},
    "full": {FAST: (10, 100, 1000, 2000, 4000, 10000), REGULAR: (10, 100, 1000, 2000)},
}
_MACHINE = "another machine, another language; what compares is how the time grows"


class Material:
    """One material's observations and posterior, by either regression."""

    def __init__(self, index: IndexSet, kernel: Kernel, fast: bool) -> None:
        self._index, self._kernel, self._fast = index, kernel, fast
        self._counts, self._sums = np.zeros((2, 1, len(index.points)))
        self._at: list[float] = []
        self._seen: list[float] = []
        self.belief = believe(index, self._counts, self._sums)

    def learn(self, point: int, detected: bool) -> None:
        """Learns from a poll at that point of the index set."""
        if self._fast:
            self._counts[0, point] += 1
            self._sums[0, point] += detected
            self.belief = believe(self._index, self._counts, self._sums)
        else:
            self._at.append(float(self._index.points[point]))
            self._seen.append(float(detected))
            mean, covariance = regress(self._kernel, self._index.points, np.array(self._at), np.array(self._seen))
            self.belief = GaussianBelief(mean[None], _root(covariance)[None])


def _root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns a root float64[m, r] of a covariance, without eigenvalues that are rounding errors."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-12 * values[-1]
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def seconds(fast: bool, steps: int, rng: np.random.Generator) -> float:
    """Returns the processor time of a run of GPOKS in s."""
    began = time.process_time()
    kernel, knapsack = Kernel(), Knapsack(np.array(PAIRS[MIDDLE]))
    index = index_set(np.linspace(0.0, 1.0, POINTS), kernel)
    materials = [Material(index, kernel, fast) for _ in knapsack.p]
    for _ in range(steps):
        functions = [value_functions(material.belief, "ots+mono", rng)[0] for material in materials]
        taken = det_ks(np.array(functions)[:, 2:], POINTS - 1 - len(materials)) + 1
        mix = index.points[taken]
        polled = int(rng.choice(len(mix), p=mix / mix.sum()))
        materials[polled].learn(int(taken[polled]), bool(rng.random() < knapsack.detection(mix)[polled]))
    return time.process_time() - began


_MANY_RUNS_UP_TO = 1000
"""Largest number of steps of a run that takes seconds."""


@dataclass(frozen=True)
class RunningTime(Experiment):
    """Rows are the two regressions, columns the steps of a run."""

    name: str = "gpoks-8.1"
    title: str = "running time of a run, s"
    source: str = f"{THESIS}, table 8.1"
    runs: Mapping[Size, int] = field(default_factory=lambda: {"quick": 1, "full": 30})
    remarks: str = (
        "Processor time of this machine for p = .75/.25, so numbers change from run to run. REGULAR-GPOKS beyond 2,000 "
        "steps is left out: each step solves a system as large as the number of observations so far."
    )

    def runs_of(self, cell: Cell, size: Size) -> int:
        """Returns a tenth of the runs if a run takes a minute."""
        return self.runs[size] if cell["steps"] <= _MANY_RUNS_UP_TO else max(self.runs[size] // 10, 1)

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell(row, f"t={steps}", steps=steps) for row, all_of in _STEPS[size].items() for steps in all_of]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        return RunOutcome({"": seconds(cell.row == FAST, cell["steps"], np.random.default_rng(seed))})

    def printed(self) -> Sequence[PublishedValue]:
        return [
            PublishedValue(row, f"t={steps}", value) for row, times in SECONDS.items() for steps, value in times.items()
        ]

    def reasons(self) -> Mapping[tuple[str, str], str]:
        return {(number.row, number.column): _MACHINE for number in self.printed()}

    def claims(self, results: Results) -> Sequence[Claim]:
        last = f"t={_STEPS[results.size][REGULAR][-1]}"
        fast, regular = results.value(FAST, last), results.value(REGULAR, last)
        return (
            Claim(
                "regression on counts and sums takes less time, the more so the longer the run",
                regular > fast,
                f"{last}: {fast:.3g} s and {regular:.3g} s",
            ),
        )
