"""[E] table 1 and the statements of section 8: long-run averages of every policy and the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pollerd.allocation.lspe.sources import Sources
from pollerd.lab.environments.interest import PollConstraint, Ranking, drawn_gains, drive_sources
from pollerd.lab.environments.interest_optimum import bound, exact
from pollerd.lab.experiments.ephemeral.example import PAPER, POLICIES, four_sources
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, PublishedValue, RunOutcome, Size, cell
from pollerd.lab.experiments.results import Results

EXACT, BOUND, ON_MEANS = "optimum, exact", "optimum, bound", "whittle on means"
_X_OVER_C = "whittle, x/C from u* on"
MIXED: Mapping[str, tuple[bool, ...]] = {
    "whittle, 1 and 3 observed": (True, False, True, False),
    "whittle, 2 and 4 observed": (False, True, False, True),
}
"""Rows of [E] 7's mixed sources: whether the state of each source is observed."""
SETTLED, EPOCHS = 210, 2100
"""Epochs left out at the start, and counted after that: whole periods of 2 and of 7."""
FIRST_EPOCHS = 61
"""Number of epochs, from empty sources on, averaged in a column of their own."""
OLDEST = 14
_COSTS = (2.0, 1.0, 1.0, 0.5)

_READINGS = ("whittle", _X_OVER_C, "whittle, 0 from u* on")

Setting = Mapping[str, Any]
SETTINGS: dict[str, Setting] = {
    "M = 1": {"most": 1},
    "M = 2": {"most": 2},
    "M = 1, drawn": {"most": 1, "drawn": "even"},
    "M = 2, drawn": {"most": 2, "drawn": "even"},
    "M = 2, drawn values": {"most": 2, "drawn": "exponential"},
    "costs 2, 1, 1, 1/2": {"most": 2, "costs": _COSTS},
}


class EphemeralTable(Experiment):
    """Rows are policies, columns the limit and the dynamics."""

    name = "ephemeral-table-1"
    title = "interest collected per epoch from four sources"
    source = f"{PAPER}, table 1 and section 8"
    runs: Mapping[Size, int] = {"quick": 5, "full": 100}
    batch = 100
    independent = True
    remarks = (
        f"Averages are over {EPOCHS} epochs after {SETTLED}, from X(0) = u, but for the column of the first "
        f"{FIRST_EPOCHS} epochs, which are counted from empty sources, X(0) = 0. "
        "The optimum under the mean dynamics is found by value iteration over the ages of the four sources, the bound "
        "by Whittle's relaxation. In the drawn columns items come as a Poisson process; they all have the mean value, "
        "which is all that the paper tells of it, but in the column of drawn values, where values are exponential. "
        "In the drawn columns the rows `whittle`, in all readings, and `greedy` are told what truly waits at every "
        "source, polled or not: [E]'s own setting, and more than polls show. `whittle on means` goes by what polls "
        "show, the mean given the epochs since each poll; `round robin` by these epochs alone. The rows "
        "`observed` are told the states of two sources and go by the means of the others, with x/C from u* on (section "
        "7). Elsewhere states follow from the polls. "
        "The row `whittle` polls at once what exceeds u* (the index is +inf there); the rows below it take x/C, which "
        "the subsidy problem gives under the mean dynamics, and 0, as the paper's log⁺ reads. The last column is ours: "
        "costs of a poll, and two units of cost per epoch in the long run."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        cells = []
        for row in (EXACT, BOUND, *POLICIES, ON_MEANS, *MIXED):
            for column, setting in SETTINGS.items():
                drawn = "drawn" in setting
                of_means = row in (EXACT, BOUND) or row.startswith("whittle, ")
                applies = {EXACT: not drawn and "costs" not in setting, BOUND: not drawn, ON_MEANS: drawn}
                applies |= dict.fromkeys(MIXED, drawn)
                if applies.get(row, drawn or not of_means):
                    cells.append(cell(row, column, stream=column, **setting))
        return cells

    def run_together(self, cell: Cell, seeds: Sequence[np.random.SeedSequence], size: Size) -> list[RunOutcome]:
        setting = dict(cell.parameters)
        sources = four_sources(np.array(setting["costs"]) if "costs" in setting else None)
        limit = PollConstraint(setting["most"], "cost" if "costs" in setting else "number")
        if cell.row == EXACT:
            return [RunOutcome({"": exact(sources, limit, OLDEST, error=1e-6)})] * len(seeds)
        if cell.row == BOUND:
            return [RunOutcome({"": bound(sources, limit.most)})] * len(seeds)
        gains, epochs = None, SETTLED + EPOCHS
        if "drawn" in setting:
            draws = [drawn_gains(sources, epochs + 1, np.random.default_rng(s), setting["drawn"]) for s in seeds]
            gains = np.stack(draws, axis=1)
        policy = _X_OVER_C if cell.row in MIXED else "whittle" if cell.row == ON_MEANS else cell.row
        ranking = POLICIES[policy](sources)
        observed = np.array(MIXED.get(cell.row, (cell.row != ON_MEANS,) * len(sources)))
        diary = drive_sources(sources, ranking, limit, epochs, gains, observed)
        outcomes = [{"": average} for average in diary.collected[SETTLED:].mean(0).tolist()]
        if cell.column == "M = 1":
            outcomes[0][f"first {FIRST_EPOCHS}"] = _from_empty(sources, ranking, limit)
        return [RunOutcome(scores) for scores in (outcomes if gains is not None else outcomes * len(seeds))]

    def printed(self) -> Sequence[PublishedValue]:
        return (
            PublishedValue("source 1 alone", "M = 1", "179.79"),
            PublishedValue("whittle", "M = 1", "254.66"),
        )

    def reasons(self) -> Mapping[tuple[str, str], str]:
        sources = four_sources()
        first, second = (sources.gain * (1.0 + sources.retained))[:2]
        return {
            ("whittle", "M = 1"): (
                "sources 1 and 2 in turn, as the paper has it, bring (X₁(2) + X₂(2)) / 2 = "
                f"({first:.2f} + {second:.2f}) / 2 = {(first + second) / 2:.2f} in the long run, which is the optimum. "
                "The printed number may be an average from a start: that over the epochs t = 0 … "
                f"{FIRST_EPOCHS - 1} from empty sources rounds to it (column `M = 1 first {FIRST_EPOCHS}`). The paper "
                "tells neither its start nor its length"
            )
        }

    def claims(self, results: Results) -> Sequence[Claim]:
        best, greedily, alone = (results.value(row, "M = 1") for row in ("whittle", "greedy", "source 1 alone"))
        return (
            Claim(
                "the index policy with M = 1 collects more than source 1 alone",
                best > alone,
                f"{best:.2f} against {alone:.2f}; so does greedy, {greedily:.2f}",
            ),
            *(_claim_of_section_7(results, column) for column in ("M = 1, drawn", "M = 2, drawn")),
        )


def _claim_of_section_7(results: Results, column: str) -> Claim:
    """Claims that a policy that sees the true states collects no less than one that uses means."""
    infinite, value, zero, means = (results.estimates[row, column] for row in (*_READINGS, ON_MEANS))
    holds = all(e.value >= means.value - 2 * np.hypot(e.error, means.error) for e in (infinite, value, zero))
    shown_by = f"+inf {infinite.value:.2f}, x/C {value.value:.2f}, 0 {zero.value:.2f}; on means {means.value:.2f}"
    reason = ""
    if not holds and infinite.value < min(value.value, zero.value):
        reason = "with +inf, sources never worth a poll wait near u*, exceed it every other epoch, and are polled"
    text = f"{column}: states from u* on may be read as +inf, x/C or 0 (section 7)"
    return Claim(text, bool(holds), shown_by, reason)


def _from_empty(sources: Sources, ranking: Ranking, limit: PollConstraint) -> float:
    """Returns the average over the first epochs from X(0) = 0."""
    gains = np.tile(sources.gain, (FIRST_EPOCHS + 1, 1, 1))
    gains[0] = 0.0
    return float(drive_sources(sources, ranking, limit, FIRST_EPOCHS, gains).collected.mean())
