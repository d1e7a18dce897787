"""[B]'s numbers that need no run: the arms of a bandit on mixes (figure 5.2), the sums of the webs (figure 7.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Cell, Experiment, PublishedValue, RunOutcome, Size, cell
from pollerd.lab.experiments.gpoks.printed import ZIPFS
from pollerd.lab.experiments.gpoks.tables import THESIS

SUM = "Σp of ten pages"
ARMS: Mapping[int, str] = {11: "10 45 120 210", 101: "100 4950 161700 3921225"}
"""Figure 5.2: number of amounts k -> printed arms for two to five materials."""
SUMS: Mapping[str, str] = {"0.3/1.0": "0.87", "0.6/1.0": "1.75", "0.9/1.5": "1.80"}
"""Figure 7.2."""
_PAGES = 10
_CUT = "digits are cut, not rounded; [B] does not print the number of pages, and with ten all three come out"
_MATERIALS = range(2, 6)


class Numbers(Experiment):
    """Rows are numbers of amounts, and webs."""

    name = "gpoks-numbers"
    title = "arms of a bandit on mixes, sums of the webs"
    source = f"{THESIS}, figures 5.2 and 7.2"
    runs: Mapping[Size, int] = {"quick": 1, "full": 1}
    remarks = (
        "Nothing is drawn. [B]'s formula, C(k - 1, k - n), is of k parts of the knapsack; the 11 amounts 0, .1, … 1 "
        "that it means make ten parts, so that two materials have nine mixes, and with steps of .01 ninety-nine."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        amounts = [
            cell(_row(k), _column(materials), k=k, materials=materials) for k in ARMS for materials in _MATERIALS
        ]
        return [*amounts, *(cell(web, SUM, alpha=alpha, beta=beta) for web, (alpha, beta) in ZIPFS.items())]

    def run(self, cell: Cell, seed: object, size: Size) -> RunOutcome:
        if cell.column == SUM:
            return RunOutcome({"": float(Zipf(_PAGES, cell["alpha"], cell["beta"]).by_rank.sum())})
        return RunOutcome({"": float(math.comb(cell["k"] - 1, cell["k"] - cell["materials"]))})

    def printed(self) -> Sequence[PublishedValue]:
        arms = [
            PublishedValue(_row(k), _column(materials), value)
            for k, values in ARMS.items()
            for materials, value in zip(_MATERIALS, values.split(), strict=True)
        ]
        return [*arms, *(PublishedValue(web, SUM, value) for web, value in SUMS.items())]

    def reasons(self) -> Mapping[tuple[str, str], str]:
        return {(web, SUM): _CUT for web in SUMS}


def _row(k: int) -> str:
    return f"{k} amounts"


def _column(materials: int) -> str:
    return f"{materials} materials"


NUMBERS = Numbers()
