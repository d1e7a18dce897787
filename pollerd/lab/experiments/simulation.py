"""An experiment defined on the command line: policies in one world, and their scores per interval of polls."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from pollerd.lab.environments.web import Policy
from pollerd.lab.environments.worlds import World
from pollerd.lab.experiments.experiment import Cell, Experiment, RunOutcome, Size, cell

STRETCHES = (1000, 2000, 5000, 10_000, 20_000, 40_000, 100_000, 200_000, 400_000, 1_000_000)


class Simulation(Experiment):
    """Policies by name in one world, the same for all of them, run by run."""

    name, title, source = "simulation", "policies in a world", "made on the command line"

    def __init__(self, world: World, policies: Mapping[str, Policy], polls: int, runs: int, seed: int) -> None:
        self._world, self._policies, self._edges = world, dict(policies), edges_up_to(polls)
        self._seed = seed
        self.runs: Mapping[Size, int] = {"quick": runs, "full": runs}

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell(name, stream=f"seed {self._seed}") for name in self._policies]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        shares = self._world.shares(self._policies[cell.row], self._edges, seed)
        return RunOutcome(dict(zip(stretch_names(self._edges), shares.tolist(), strict=True)))


def edges_up_to(polls: int) -> list[int]:
    """Returns the usual interval ends up to this number of polls, which is the last."""
    return [*(edge for edge in STRETCHES if edge < polls), polls]


def stretch_names(edges: Sequence[int]) -> list[str]:
    """Returns the names of columns, "0-1k", "1k-2k", …"""
    ends = [_short(edge) for edge in (0, *edges)]
    return [f"{begin}-{end}" for begin, end in itertools.pairwise(ends)]


def _short(polls: int) -> str:
    return f"{polls // 1000}k" if polls and polls % 1000 == 0 else str(polls)
