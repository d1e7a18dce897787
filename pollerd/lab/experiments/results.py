"""Runs combined: the statistic, with its standard error, of every place of the table and of every curve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.lab.experiments.experiment import Cell, Experiment, RunOutcome, Size, Statistic


@dataclass(frozen=True)
class Estimate:
    """A statistic over `runs` runs, with its standard error; nan for an error that is not known, as with one run."""

    value: float
    error: float
    runs: int


@dataclass(frozen=True)
class Curve:
    """Mean and standard error at each point, float64[m] each."""

    mean: NDArray[np.float64]
    error: NDArray[np.float64]


class Results:
    """Results of an experiment: `estimates` by (row, column), `curves` by (row, cell column, name)."""

    def __init__(self, experiment: Experiment, size: Size, outcomes: Mapping[Cell, Sequence[RunOutcome]]) -> None:
        self.size: Size = size
        self.estimates: dict[tuple[str, str], Estimate] = {}
        self.curves: dict[tuple[str, str, str], Curve] = {}
        for cell, runs_of_cell in outcomes.items():
            for name in _names(outcome.scores for outcome in runs_of_cell):
                place = (cell.row, cell.column_of(name))
                values = np.array([outcome.scores.get(name, np.nan) for outcome in runs_of_cell])
                self.estimates[place] = estimate(values, experiment.statistic(*place))
            for name in _names(outcome.curves for outcome in runs_of_cell):
                runs = np.array([outcome.curves[name] for outcome in runs_of_cell if name in outcome.curves])
                self.curves[cell.row, cell.column, name] = _curve(runs)

    @property
    def rows(self) -> list[str]:
        """Rows in the order of the sweep."""
        return list(dict.fromkeys(row for row, _ in self.estimates))

    @property
    def columns(self) -> list[str]:
        """Columns in the order of the sweep."""
        return list(dict.fromkeys(column for _, column in self.estimates))

    def value(self, row: str, column: str = "") -> float:
        """Returns the estimate at a place; raises KeyError if there is none."""
        return self.estimates[row, column].value


def estimate(values: NDArray[np.float64], statistic: Statistic) -> Estimate:
    """Returns a statistic of values float64[runs], nan left out; the least and the most of them have no error.

    The variance's standard error is `sqrt((m4 - m2²) / n)`, valid for any distribution of the values.
    """
    values = values[~np.isnan(values)]
    n = len(values)
    if n == 0:
        return Estimate(np.nan, np.nan, 0)
    spread = float(values.var(ddof=1)) if n > 1 else np.nan
    if statistic in ("least", "most"):
        return Estimate(float(values.min() if statistic == "least" else values.max()), np.nan, n)
    if statistic == "mean":
        return Estimate(float(values.mean()), float(np.sqrt(spread / n)), n)
    away = values - values.mean()
    error = np.sqrt(max(float((away**4).mean() - (away**2).mean() ** 2), 0.0) / n) if n > 1 else np.nan
    return Estimate(spread, float(error), n)


def _names(tables: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table))


def _curve(runs: NDArray[np.float64]) -> Curve:
    """Returns the curve of runs float64[runs, m]."""
    n = len(runs)
    error = runs.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(runs.shape[1], np.nan)
    return Curve(runs.mean(axis=0), error)
