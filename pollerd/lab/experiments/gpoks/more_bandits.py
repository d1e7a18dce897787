"""Bandits that [B] names without trying them: greedy ones ([B] 3.2.1), and bandits on mixes of three materials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pollerd.allocation.bandits import Arms, Ucb1
from pollerd.lab.environments.knapsack import Knapsack
from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.gpoks.play import POINTS, automata, gpoks, splits
from pollerd.lab.experiments.gpoks.printed import PAIRS, TIMES, ZIPFS
from pollerd.lab.experiments.gpoks.readings import ThompsonByDeviations
from pollerd.lab.experiments.gpoks.tables import THESIS, zipf
from pollerd.lab.experiments.results import Results

COARSE = 11
"""Points of the amounts of three materials: 36 arms; steps of .01 would have 4,851."""
PAGES = 3
STEPS = TIMES[-1]


class Greedy(Arms):
    """Pulls each arm once, in order, then the one with the highest mean reward; of equals one at random: O(m)."""

    exploration = 0.0

    def choose(self, rng: np.random.Generator) -> int:
        if self.exploration and rng.random() < self.exploration:
            return int(rng.integers(len(self.counts)))
        means = np.where(self.counts > 0, self.sums / np.maximum(self.counts, 1.0), np.inf)
        return int(rng.choice(np.flatnonzero(means == means.max())))


class EpsilonGreedy(Greedy):
    """Pulls a random arm in a tenth of all steps, else as `Greedy`."""

    exploration = 0.1


PLAYERS: Mapping[str, type[Arms]] = {
    "MAB:GREEDY": Greedy,
    "MAB:ε-GREEDY, ε = .1": EpsilonGreedy,
    "MAB:UCB-1": Ucb1,
    "MAB:TS, deviations": ThompsonByDeviations,
}
OTHERS = ("LA:LAKG", "GPOKS:UCB")
_THREE = {f"3 pages, {name}": zipf(name, *law, PAGES).probabilities for name, law in ZIPFS.items()}


class MoreBandits(Experiment):
    """Rows are players, columns the pairs, on steps of .01, and three pages, on steps of .1."""

    name = "gpoks-bandits"
    title = f"greedy bandits, and bandits on mixes of three pages: updates found in {STEPS:,} steps"
    source = f"{THESIS}, sections 3.2.1 and 5.3.1"
    runs: Mapping[Size, int] = {"quick": 10, "full": 100}
    remarks = (
        "[B] prints nothing here. Two materials: 99 mixes, steps of .01; three: 36 mixes, steps of .1. LAKG and "
        "GPOKS:UCB have no arms, and are there to compare with; GPOKS has 101 points in both."
    )

    def cells(self, size: Size) -> Sequence[Cell]:
        two = [(name, pair, POINTS) for name, pair in PAIRS.items()]
        three = [(name, law, COARSE) for name, law in _THREE.items()]
        return [
            cell(row, name, p=tuple(p), points=points)
            for row in (*PLAYERS, *OTHERS)
            for name, p, points in (*two, *three)
        ]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        knapsack, rng = Knapsack(np.array(cell["p"])), np.random.default_rng(seed)
        if cell.row in PLAYERS:
            rewards = splits(knapsack, PLAYERS[cell.row], STEPS, rng, cell["points"])
        elif cell.row == "LA:LAKG":
            rewards = automata(knapsack, "lakg", STEPS, rng)
        else:
            rewards = gpoks(knapsack, "ucb", STEPS, 1, rng)[0]
        return RunOutcome({"": float(rewards.sum())})

    def claims(self, results: Results) -> Sequence[Claim]:
        greedy, *_, best = "MAB:GREEDY", "GPOKS:UCB"
        pairs = {column: (results.value(greedy, column), results.value(best, column)) for column in results.columns}
        shown = "; ".join(f"{column}: {a:.1f} and {b:.1f}" for column, (a, b) in pairs.items())
        return (
            Claim("greedy explores too little: GPOKS:UCB finds more", all(a < b for a, b in pairs.values()), shown),
        )


MORE_BANDITS = MoreBandits()
