"""Runs `pollerd reproduce` for the tables, and reads its output."""

from __future__ import annotations

import csv
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from doc_tables.comparison import RunEstimate
from pollerd.lab.experiments.catalogue import experiment
from pollerd.lab.experiments.experiment import Size
from pollerd.lab.experiments.report import TABLE

ROOT = Path(__file__).resolve().parents[2]
Estimates = Mapping[tuple[str, str], RunEstimate]
"""Estimates by the experiment's row and column."""


@dataclass(frozen=True)
class Rerun:
    """An experiment in a size, with at most `runs` repetitions of a cell; None: as many as the size has."""

    experiment: str
    size: Size
    runs: int | None = None

    def no_more_than(self, runs: int | None) -> Rerun:
        """Returns a copy with at most `runs` repetitions."""
        told = [number for number in (self.runs, runs) if number is not None]
        return replace(self, runs=min(told, default=None))

    def runs_of(self, row: str) -> int:
        """Returns the repetitions of a row of the experiment's table; 0 if it has no such row."""
        found = experiment(self.experiment)
        numbers = [found.runs_of(cell, self.size) for cell in found.cells(self.size) if cell.row == row]
        return min(max(numbers, default=0), self.runs or sys.maxsize)


def reruns_of(command: str) -> dict[str, Rerun]:
    """Parses a page's `pollerd reproduce NAME ... [--full] [--runs N]`; by the name of the experiment."""
    words = shlex.split(command)[2:]
    runs = int(words.pop(words.index("--runs") + 1)) if "--runs" in words else None
    size: Size = "full" if "--full" in words else "quick"
    return {word: Rerun(word, size, runs) for word in words if not word.startswith("--")}


def rerun(wanted: Rerun, folder: Path, jobs: int) -> Estimates:
    """Runs it with its report below a folder, and reads its table. Raises CalledProcessError if the run fails."""
    out = folder / f"{wanted.size}-{wanted.runs or 'all'}"
    words = ["reproduce", wanted.experiment, f"--{wanted.size}", "--no-figures", "--jobs", str(jobs), "--out", str(out)]
    if wanted.runs is not None:
        words += ["--runs", str(wanted.runs)]
    subprocess.run([sys.executable, "-m", "pollerd", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return read(out / wanted.experiment / TABLE)


def read(table: Path) -> Estimates:
    """Reads the numbers of an experiment's table.csv."""
    with table.open(encoding="utf-8", newline="") as file:
        return {
            (line["row"], line["column"]): RunEstimate(
                float(line["value"]), float(line["standard_error"]), int(line["runs"])
            )
            for line in csv.DictReader(file)
        }
