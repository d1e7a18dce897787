"""A table of [B]: schemes in rows, environments in columns, updates found by a number of steps, or their variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pollerd.lab.environments.knapsack import Knapsack
from pollerd.lab.experiments.experiment import (
    Cell,
    Claim,
    Experiment,
    PublishedValue,
    RunOutcome,
    Size,
    Statistic,
    cell,
)
from pollerd.lab.experiments.gpoks.claims import LEAST, MOST, VARIANCE, claims_of
from pollerd.lab.experiments.gpoks.play import POINTS
from pollerd.lab.experiments.gpoks.printed import TIMES
from pollerd.lab.experiments.gpoks.schemes import BY_CHANCE, BY_REJECTION, scores
from pollerd.lab.experiments.results import Results

STEPS = TIMES[-1]
BATCH = 100
"""Number of runs that GPOKS simulates together."""
THESIS = "[B] Glimsdal, thesis on GPOKS"
REMARKS = (
    "Score: the expectation Σ x_i d_i(x_i) at the mix held, summed over the steps. The feedback is for learning alone: "
    "a draw of d_i(x_i) for one material, chosen with the chance that its amount says. The index set and the bandits' "
    "amounts are 101 points from 0 to 1. DET-KS adds .01 at a time where the unit value is highest, which is the gain "
    "under f'_i = p_i (2.3); gpoks-8.5-product shows the other reading. Of the functions that meet the conditions the "
    "first is taken (rejection); where 16 candidates have none, one from a sampler with the same law."
)


@dataclass(frozen=True)
class MaterialSet:
    """A column: materials by their change probabilities, and the white noise on their feedback ([B] (2.3))."""

    column: str
    probabilities: tuple[float, ...]
    noise: float = 0.0


def zipf(column: str, alpha: float, beta: float, pages: int) -> MaterialSet:
    """Returns pages with `p_k = α / k^β` ([B] (7.2))."""
    return MaterialSet(column, tuple((alpha / np.arange(1, pages + 1) ** beta).tolist()))


@dataclass(frozen=True)
class Table(Experiment):
    """One of [B]'s tables.

    why: reasons for numbers that differ, by (row, column). varies: the column is the variance over runs at the end.
    gain, points, even_start: variants of DET-KS, of the index set and of the first step of GPOKS, see play.py.
    """

    name: str
    title: str
    source: str
    rows: tuple[str, ...]
    environments: tuple[MaterialSet, ...]
    numbers: tuple[PublishedValue, ...] = ()
    why: tuple[tuple[tuple[str, str], str], ...] = ()
    times: tuple[int, ...] = TIMES
    varies: bool = False
    gain: str = "unit value"
    points: int = POINTS
    even_start: bool = False
    remarks: str = REMARKS
    runs: Mapping[Size, int] = field(default_factory=lambda: {"quick": 10, "full": 1000})
    batch: int = BATCH

    def runs_of(self, cell: Cell, size: Size) -> int:
        """Returns [B]'s number of runs; a tenth if functions are drawn by rejection, or an automaton's materials."""
        tenth = size == "full" and cell.row in (*BY_REJECTION, *BY_CHANCE)
        return self.runs[size] // 10 if tenth else self.runs[size]

    def cells(self, size: Size) -> Sequence[Cell]:
        return [
            cell(row, environment.column, probabilities=environment.probabilities, noise=environment.noise)
            for row in self.rows
            for environment in self.environments
        ]

    def run_together(self, cell: Cell, seeds: Sequence[np.random.SeedSequence], size: Size) -> list[RunOutcome]:
        knapsack = Knapsack(np.array(cell["probabilities"]))
        steps = STEPS if self.varies else max(self.times)
        totals = scores(
            *(cell.row, knapsack, steps, seeds),
            noise=cell["noise"],
            gain=self.gain,
            points=self.points,
            even_start=self.even_start,
        ).cumsum(1)
        if self.varies:
            extremes = {LEAST, MOST} & {number.column for number in self.numbers if number.row == cell.row}
            asked = (VARIANCE, *sorted(extremes))
            return [RunOutcome(dict.fromkeys(asked, float(total))) for total in totals[:, -1]]
        return [RunOutcome({f"t={t}": float(of_run[t - 1]) for t in self.times}) for of_run in totals]

    def statistic(self, row: str, column: str) -> Statistic:
        if not self.varies:
            return "mean"
        return "least" if column == LEAST else "most" if column == MOST else "variance"

    def printed(self) -> Sequence[PublishedValue]:
        return self.numbers

    def claims(self, results: Results) -> Sequence[Claim]:
        return claims_of(self.name, results)

    def reasons(self) -> Mapping[tuple[str, str], str]:
        return dict(self.why)
