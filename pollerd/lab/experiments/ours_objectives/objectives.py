"""Every allocator at the sizes it is made for, scored by an objective relative to the clairvoyant optimum."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pollerd.allocation.registered import TIMELY, Objective
from pollerd.lab.environments.driving import STEP_S
from pollerd.lab.environments.web import Policy
from pollerd.lab.environments.worlds import Web
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Cell, Experiment, RunOutcome, Size, cell
from pollerd.lab.experiments.results import Results
from pollerd.lab.experiments.shares import draw_web

STRETCHES = (1, 4, 10, 20, 40)
"""Ends of the intervals, in polls a page."""
PAGES: Mapping[Size, tuple[int, ...]] = {"quick": (2, 30), "full": (2, 30, 512)}
SWITCH_EVERY = {2: 20, 30: 300, 512: 1000}
"""Polls between two switches, by pages: 2 to 10 polls a page."""
LAST: Mapping[Size, int] = {"quick": 10, "full": 40}
"""End of the last interval, in polls a page."""
OWN = ("whittle", "lspe", "optimal", "uniform")
"""Allocators that support freshness and interest; the others are defined for changes only, and use that."""
OWN_TIMELY = ("whittle", "optimal", "uniform")
"""Those that support delay and deadline."""
OTHERS = ("htraa", "lakg", "gpoks", "estimator", "proportional", "ucb1-raw", "ucb1", "thompson", "gp-ucb")
MADE_FOR = {"lspe": 30, "gpoks": 1000, "ucb1-raw": 2, "ucb1": 2, "thompson": 2, "gp-ucb": 2}
"""Largest number of pages that an allocator is made for; any number else."""
AS_MEASURED: Mapping[str, tuple[tuple[str, Any], ...]] = {"gpoks": (("forgetting", "none"),)}
"""Parameters other than the defaults: `gpoks` was measured before it forgot (`gpoks-switching` has both)."""
GIVEN_RATES = "optimal, told the rates"


@dataclass(frozen=True)
class PolledSites:
    """A web: α and β of the shuffled ranking; whether neighbours in rank switch; half-lives of news in s.

    deadline: in uniform cycles, for the objective `deadline`.
    """

    alpha: float
    beta: float
    switching: bool = False
    half_lives: tuple[float, float] = (86_400.0, 86_400.0)
    deadline: float = 0.25


class Objectives(Experiment):
    """Rows are allocators by size and web, columns intervals of polls a page."""

    source = "ours, as theory.md section 2 for changes"
    version = 2
    runs: Mapping[Size, int] = {"quick": 2, "full": 30}

    def __init__(self, objective: Objective, settings: Mapping[str, PolledSites]) -> None:
        self.name, self.title = f"ours-{objective}", f"{objective} by every allocator, as a share of the best"
        self._objective: Objective = objective
        self._own = OWN_TIMELY if objective in TIMELY else OWN
        self._settings = dict(settings)
        self.remarks = (
            f"Scored is {objective} as a share of what the best split reaches for the true rates; columns are "
            "chunks in polls a page. One poll every 10 s; pages in random order, with the true change process and "
            "real gaps; all policies meet the same webs. Rows with `(changes)` are allocators defined for changes "
            "alone, which go by these. A stretch begins with what the one before it left lying, so that it may go "
            "beyond 1. Allocators learn from changed or not. Where ranks switch, the rates that are told are those of "
            "the start, and the best is that of the rates of the time."
        )

    def cells(self, size: Size) -> Sequence[Cell]:
        return [
            cell(f"{place}: {row}", stream=place, pages=pages, web=web, allocator=allocator, told=row == GIVEN_RATES)
            for pages in PAGES[size]
            for web in self._settings
            for place in (f"{pages} pages, {web}",)
            for row, allocator in _rows(self._own).items()
            if pages <= MADE_FOR.get(allocator, pages)
        ]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        setting, pages = self._settings[cell["web"]], cell["pages"]
        zipf = Zipf(
            pages, setting.alpha, setting.beta, "shuffled", switch_every=SWITCH_EVERY[pages] if setting.switching else 0
        )
        due, name = setting.deadline * pages * STEP_S, cell["allocator"]
        world = Web(zipf, self._objective, half_lives=setting.half_lives, deadline=due)
        goal = self._objective if name in self._own else "changes"
        parameters = AS_MEASURED.get(name, ())
        policy = Policy(name, goal, told_rates=cell["told"], deadline=due, parameters=parameters)
        ends = [end for end in STRETCHES if end <= LAST[size]]
        shares = world.shares(policy, [pages * end for end in ends], seed)
        names = [f"{begin}-{end}" for begin, end in itertools.pairwise([0, *ends])]
        return RunOutcome(dict(zip(names, shares.tolist(), strict=True)))

    def figures(self) -> Sequence[str]:
        return [f"{self.name}-{number}" for number in range(1, len(self._settings) + 1)]

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        """Draws a web with the most pages that have results."""
        web = list(self._settings)[self.figures().index(figure)]
        pages = max(number for number in PAGES[results.size] if f"{number} pages, {web}: {GIVEN_RATES}" in results.rows)
        draw_web(axes, results, f"{pages} pages, {web}")


def _rows(own: Sequence[str]) -> dict[str, str]:
    """Returns the allocator of each row; own: those that support the objective."""
    others = [name for name in (*OWN, *OTHERS) if name not in own]
    return {GIVEN_RATES: "optimal", **{name: name for name in own}, **{f"{name} (changes)": name for name in others}}
