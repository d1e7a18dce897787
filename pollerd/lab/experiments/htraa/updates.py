"""Numbers in the text of [A]: section 2's example, and the changes per step of section 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pollerd.lab.environments.knapsack import Knapsack
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Cell, Experiment, PublishedValue, RunOutcome, Size, cell
from pollerd.lab.experiments.htraa.schemes import PAPER

SUM, BEST, FOUND = "Σp", "best share of polls that find a change", "chance that a poll finds a change"
EXAMPLE = {2: "0.75", 3: "0.875"}
"""Detection probability of a page that stays unchanged with probability .5 in each step, by steps between polls."""
PRINTED = {(0.3, 1.5): "0.76", (0.3, 1.0): "2.0", (0.9, 1.5): "2.3"}


class UpdatesAStep(Experiment):
    """The example; the mean number of updates per step, and the clairvoyant optimum of one poll a step."""

    name = "htraa-updates"
    title = "the numbers in the text: detection of a change, updates per step of 512 pages"
    source = f"{PAPER}, sections 2 and 4.3.1"
    runs: Mapping[Size, int] = {"quick": 1, "full": 1}
    remarks = "Nothing is drawn."

    def cells(self, size: Size) -> Sequence[Cell]:
        environments = [cell(_row(*each), alpha=each[0], beta=each[1]) for each in PRINTED]
        return [*environments, *(cell(_example(steps), steps=steps) for steps in EXAMPLE)]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        if "steps" in dict(cell.parameters):
            knapsack = Knapsack(np.array([0.5]))
            return RunOutcome({FOUND: float(knapsack.detection(np.array([1 / cell["steps"]]))[0])})
        zipf = Zipf(512, cell["alpha"], cell["beta"])
        return RunOutcome({SUM: float(zipf.by_rank.sum()), BEST: zipf.optimum})

    def printed(self) -> Sequence[PublishedValue]:
        environments = [PublishedValue(_row(*each), SUM, value) for each, value in PRINTED.items()]
        return [*environments, *(PublishedValue(_example(steps), FOUND, value) for steps, value in EXAMPLE.items())]


def _row(alpha: float, beta: float) -> str:
    return f"α = {alpha}, β = {beta}"


def _example(steps: int) -> str:
    return f"q = 0.5, polled every {steps} steps"


UPDATES_A_STEP = UpdatesAStep()
