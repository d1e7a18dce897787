"""Interface of experiments: a sweep of cells, a run of one cell, and the printed numbers to compare with.

To add one: make a folder beside this file whose `__init__.py` exports `EXPERIMENTS`, a tuple of `Experiment`s, and name
it in catalogue.py. An experiment holds only small values that pickle: it is sent to worker processes.

- `cells(size)` lists the sweep. A cell is one place (row, column) of the table, or one group of columns of a row.
- `run(cell, seed, size)` does one run of one cell and returns a `RunOutcome`: scores by column, curves by name.
- The runner repeats it `runs_of(cell, size)` times. Results do not depend on the number of cores, on interruptions or
  on earlier calls, because a run's random numbers depend only on the experiment, the cell's `stream` and the number of
  the run; or, if runs done together share a generator, on the numbers of its batch, which is always done whole. Cells
  with the same `stream` (policies to be compared) get the same random numbers, run by run. Another `entropy` gives
  other random numbers to all: whatever `run` draws from a constant seed of its own must depend on `self.entropy`, too.
- `printed()` returns the paper's numbers by (row, column); the report shows ours beside them with a verdict, and
  `reasons()` explains differences. `claims(results)` checks statements of a paper.
- `figures()` and `draw(...)` make the figures.

The experiment defines the score of one run for a column; the report takes the mean over the runs, or, if `statistic`
says so, the variance, the least or the most.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from pollerd.errors import InvalidValueError

if TYPE_CHECKING:
    from pollerd.lab.experiments.results import Results

Size = Literal["quick", "full"]
Statistic = Literal["mean", "variance", "least", "most"]
SIZES: tuple[Size, ...] = ("quick", "full")
MAX_ENTROPY = 2**32 - 1
"""One word of a `numpy.random.SeedSequence`."""


@dataclass(frozen=True)
class Cell:
    """One place of the sweep: hashable, picklable.

    row: the table's row, mostly a policy. column: the table's column, or the prefix of its columns.
    parameters: what `run` needs, as (name, value) pairs of plain values; `cell["name"]` looks one up.
    stream: name of a random stream shared between cells; "": its own.
    """

    row: str
    column: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()
    stream: str = ""

    def __getitem__(self, name: str) -> Any:
        return dict(self.parameters)[name]

    @property
    def key(self) -> str:
        """Identifies the cell in files: same row, column, parameters and stream, same key."""
        return f"{self.row} | {self.column} | {self.parameters!r} | {self.stream}"

    def column_of(self, score: str) -> str:
        """Returns the table's column of a score: the cell's column, then the score's name, either may be empty."""
        return " ".join(part for part in (self.column, score) if part)


def cell(row: str, column: str = "", *, stream: str = "", **parameters: Any) -> Cell:
    """Returns a cell with its parameters by name."""
    return Cell(row, column, tuple(sorted(parameters.items())), stream)


@dataclass(frozen=True)
class RunOutcome:
    """Result of one run of one cell.

    scores: column (after the cell's own; "" for none) -> value; nan if the run has none.
    curves: name -> values along an axis defined by the experiment; equally long in all runs of a cell.
    """

    scores: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedValue:
    """A number of the paper, with its digits.

    value: as printed, "812.4"; half a unit of its last digit is its precision. note: shown beside it in the report.
    error: standard error of the printed number, if the paper gives it or it can be derived; 0 if unknown.
    """

    row: str
    column: str
    value: str
    note: str = ""
    error: float = 0.0

    @property
    def number(self) -> float:
        """The value as a float."""
        return float(self.value)

    @property
    def precision(self) -> float:
        """Half a unit of the last printed digit."""
        digits, _, exponent = self.value.lower().partition("e")
        decimals = len(digits.partition(".")[2])
        return float(0.5 * 10.0 ** (int(exponent or 0) - decimals))


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, whether it holds, the numbers that show it; reason: why it does not hold, if known."""

    text: str
    holds: bool
    shown_by: str
    reason: str = ""


class Experiment(ABC):
    """One table or figure.

    name: as on the command line, "htraa-fig-7". title: a line. source: paper and place. runs: number of runs by size.
    version: to be raised when the meaning of `run` changes; stored runs of another version are not used. batch: number
    of runs given to `run_together` at once. independent: the outcome of a run does not depend on the other runs of its
    batch, so that a batch need not be done whole. remarks: our decisions where the paper gives no details.
    entropy: mixed into the seeds of all runs, 0 to `MAX_ENTROPY`; 0: the seeds of the tables in docs/papers.
    """

    name: str
    title: str
    source: str
    runs: Mapping[Size, int]
    version: int = 1
    batch: int = 1
    independent: bool = False
    remarks: str = ""
    entropy: int = 0

    def with_entropy(self, entropy: int) -> Self:
        """Returns a copy with other seeds; raises InvalidValueError outside 0 to `MAX_ENTROPY`."""
        if not 0 <= entropy <= MAX_ENTROPY:
            raise InvalidValueError("entropy", f"from 0 to {MAX_ENTROPY}", entropy)
        other = copy.copy(self)
        object.__setattr__(other, "entropy", entropy)  # some experiments are frozen dataclasses
        return other

    def runs_of(self, cell: Cell, size: Size) -> int:
        """Returns the number of runs of a cell; by default the same for all."""
        return self.runs[size]

    @abstractmethod
    def cells(self, size: Size) -> Sequence[Cell]:
        """Returns the sweep, in the order of the table's rows and columns; no two cells with the same `key`."""

    def run(self, cell: Cell, seed: np.random.SeedSequence, size: Size) -> RunOutcome:
        """Does one run. All its randomness comes from `seed`."""
        raise NotImplementedError(f"{type(self).__name__} has neither run nor run_together")

    def run_together(self, cell: Cell, seeds: Sequence[np.random.SeedSequence], size: Size) -> list[RunOutcome]:
        """Does up to `batch` runs at once, an outcome for each seed; override it if that is faster."""
        return [self.run(cell, seed, size) for seed in seeds]

    def printed(self) -> Sequence[PublishedValue]:
        """Returns the paper's numbers."""
        return ()

    def reasons(self) -> Mapping[tuple[str, str], str]:
        """Returns (row, column) -> why our number differs from the printed one. Shown only if it does differ."""
        return {}

    def statistic(self, row: str, column: str) -> Statistic:
        """Returns the statistic taken over the runs."""
        return "mean"

    def claims(self, results: Results) -> Sequence[Claim]:
        """Returns the paper's statements, checked against the results."""
        return ()

    def figures(self) -> Sequence[str]:
        """Returns the names of the figures, as in file names."""
        return ()

    def draw(self, figure: str, results: Results, axes: Any) -> None:
        """Draws one of `figures()` on a matplotlib Axes."""
        raise NotImplementedError(figure)
