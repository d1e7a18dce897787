"""What an experiment is: a sweep of cells, a run of one cell, and the printed numbers that it answers to.

To add one: make a folder beside this file whose `__init__.py` exports `EXPERIMENTS`, a tuple of `Experiment`s, and name
it in catalogue.py. An experiment holds only small values that pickle: it travels to the processes that run it.

- `cells(size)` lists the sweep. A cell is one place (row, column) of the table, or one group of columns of a row.
- `run(cell, seed, size)` does one run of one cell and answers with an `RunOutcome`: scores by column, curves by name.
- The runner repeats it `runs_of(cell, size)` times. The same numbers come out on any number of cores, after any
  interruption and whatever earlier calls did, because a run's random numbers depend on nothing but the experiment, the
  cell's `stream` and the number of the run; or, where runs that are done together share a generator, on the numbers of
  its batch, which is done whole, however few of its runs are asked for.
  Cells that share a `stream` (policies to be compared) get the same random numbers, run by run.
- `printed()` gives the paper's numbers by (row, column); the report puts ours beside them with a verdict, and
  `reasons()` says why a number differs. `claims(results)` answers what a paper states in words.
- `figures()` and `draw(...)` make the pictures.

What one run means by the column that it answers for is the experiment's business; over the runs the report takes the
mean, or, where `statistic` says so, the variance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from pollerd.simulation.experiments.results import Results

Size = Literal["quick", "full"]
Statistic = Literal["mean", "variance"]
SIZES: tuple[Size, ...] = ("quick", "full")


@dataclass(frozen=True)
class Cell:
    """One place of the sweep: hashable, picklable.

    row: the table's row, mostly a policy. column: the table's column, or what its columns begin with.
    parameters: what `run` needs, as (name, value) pairs of plain values; `cell["name"]` looks one up.
    stream: whose random numbers it gets; "": its own.
    """

    row: str
    column: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()
    stream: str = ""

    def __getitem__(self, name: str) -> Any:
        return dict(self.parameters)[name]

    @property
    def key(self) -> str:
        """Stands for the cell in files: same row, column and parameters, same key."""
        return f"{self.row} | {self.column} | {self.parameters!r} | {self.stream}"

    def column_of(self, score: str) -> str:
        """The table's column of one of its scores: the cell's column, then the score's name, where there are such."""
        return " ".join(part for part in (self.column, score) if part)


def cell(row: str, column: str = "", *, stream: str = "", **parameters: Any) -> Cell:
    """A cell with its parameters by name."""
    return Cell(row, column, tuple(sorted(parameters.items())), stream)


@dataclass(frozen=True)
class RunOutcome:
    """What one run of one cell came to.

    scores: column (after the cell's own; "" for none) -> value; nan where the run has none.
    curves: name -> values along an axis that the experiment knows; equally long in all runs of a cell.
    """

    scores: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedValue:
    """A number of the paper, in its digits.

    value: as printed, "812.4"; half a unit of its last digit is its precision. note: beside it in the report.
    error: standard error of the printed number, where the paper tells or it follows from what it tells; 0 if unknown.
    """

    row: str
    column: str
    value: str
    note: str = ""
    error: float = 0.0

    @property
    def number(self) -> float:
        """The value."""
        return float(self.value)

    @property
    def precision(self) -> float:
        """Half a unit of the last printed digit."""
        digits, _, exponent = self.value.lower().partition("e")
        decimals = len(digits.partition(".")[2])
        return float(0.5 * 10.0 ** (int(exponent or 0) - decimals))


@dataclass(frozen=True)
class Claim:
    """What is said in words, whether it came out, the numbers that show it; reason: why not, where that is known."""

    text: str
    holds: bool
    shown_by: str
    reason: str = ""


class Experiment(ABC):
    """One table or figure.

    name: as on the command line, "htraa-fig-7". title: a line. source: paper and place. runs: how many by size.
    version: to be raised when `run` comes to mean something else; stored runs of another version are not used.
    batch: so many runs are given to `run_together` at once. independent: what a run comes to does not hang on the runs
    of its batch, so that a batch need not be done whole. remarks: what we decided where the paper is silent.
    """

    name: str
    title: str
    source: str
    runs: Mapping[Size, int]
    version: int = 1
    batch: int = 1
    independent: bool = False
    remarks: str = ""

    def runs_of(self, cell: Cell, size: Size) -> int:
        """How often a cell is run: as often as all, where an experiment says nothing else."""
        return self.runs[size]

    @abstractmethod
    def cells(self, size: Size) -> Sequence[Cell]:
        """The sweep, in the order of the table's rows and columns; no two with the same `key`."""

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        """One run. All its randomness comes from `seed`."""
        raise NotImplementedError(f"{type(self).__name__} has neither run nor run_together")

    def run_together(self, cell: Cell, seeds: Sequence[np.random.SeedSequence], size: Size) -> list[RunOutcome]:
        """Up to `batch` runs at once, an outcome for each seed; to be overridden where they go faster together."""
        return [self.run(cell, seed, size) for seed in seeds]

    def printed(self) -> Sequence[PublishedValue]:
        """The paper's numbers."""
        return ()

    def reasons(self) -> Mapping[tuple[str, str], str]:
        """(row, column) -> why our number differs from the printed one. Shown only where it does differ."""
        return {}

    def statistic(self, row: str, column: str) -> Statistic:
        """What is taken over the runs."""
        return "mean"

    def claims(self, results: Results) -> Sequence[Claim]:
        """What the paper states in words."""
        return ()

    def figures(self) -> Sequence[str]:
        """Names of the figures, as in file names."""
        return ()

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        """Draws one of `figures()` on a matplotlib Axes."""
        raise NotImplementedError(figure)
