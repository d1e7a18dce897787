"""Experiments whose outcome is known, for the tests of the framework."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, PublishedValue, RunOutcome, Size, cell
from pollerd.lab.experiments.results import Results


class Dice(Experiment):
    """Throws of dice: their mean, and their variance."""

    name, title, source = "dice", "throws of a die", "everybody knows"
    runs: Mapping[Size, int] = {"quick": 200, "full": 400}
    remarks = "Fair dice."

    def cells(self, size: Size) -> Sequence[Cell]:
        return [cell("six", faces=6, stream="hand"), cell("eight", faces=8, stream="hand"), cell("coin", faces=2)]

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        throw = float(np.random.default_rng(seed).integers(1, cell["faces"] + 1))
        return RunOutcome({"mean": throw, "variance": throw}, {"line": [throw, 2 * throw]})

    def statistic(self, row: str, column: str) -> Any:
        return column

    def printed(self) -> Sequence[PublishedValue]:
        return [
            PublishedValue("six", "mean", "3.5"),
            PublishedValue("six", "variance", "2.9", note="35 / 12"),
            PublishedValue("eight", "mean", "5.5"),
            PublishedValue("coin", "mean", "9.0"),
            PublishedValue("ten", "mean", "5.5"),
        ]

    def reasons(self) -> Mapping[tuple[str, str], str]:
        return {("eight", "mean"): "eight faces have a mean of 4.5"}

    def claims(self, results: Results) -> Sequence[Claim]:
        six, eight = (results.value(row, "mean") for row in ("six", "eight"))
        return [Claim("more faces, more pips", eight > six, f"{six:g} | {eight:g}")]

    def figures(self) -> Sequence[str]:
        return ("lines",)

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        axes.plot(results.curves["six", "", "line"].mean)


class Joint(Dice):
    """The same throws, ten at a time from the first one's seed."""

    name, batch = "joint", 10

    def run_together(self, cell: Cell, seeds: Sequence[np.random.SeedSequence], size: Size) -> list[RunOutcome]:
        throws = np.random.default_rng(seeds[0]).integers(1, cell["faces"] + 1, len(seeds))
        return [RunOutcome({"mean": float(throw)}) for throw in throws]


class Blocking(Dice):
    """Runs that say in a folder which process they are in, and never end."""

    name = "blocking"

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        (Path(self._folder) / f"{os.getpid()}.pid").touch()
        threading.Event().wait()
        raise AssertionError("nobody ends the waiting")


class Failing(Dice):
    """Breaks in the run of one cell."""

    name = "failing"

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        if cell.row == "coin":
            raise ArithmeticError("the coin stands on its edge")
        return super().run(cell, seed, size)
