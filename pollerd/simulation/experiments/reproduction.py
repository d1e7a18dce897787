"""Experiments from the sweep to the report: run, drawn, written, and all verdicts on one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pollerd.simulation.experiments.experiment import Experiment, Size
from pollerd.simulation.experiments.figures import write_figures
from pollerd.simulation.experiments.report import REPORT, table, write
from pollerd.simulation.experiments.runner import Told, conduct

SUMMARY = "README.md"


def reproduce(
    experiment: Experiment,
    size: Size,
    out: Path,
    *,
    jobs: int,
    draw: bool,
    told: Told,
    most_runs: int | None = None,
) -> Counter[str]:
    """Runs what is not done yet and writes the experiment's folder `out/name`; returns how often each verdict.

    most_runs: no more runs of each cell than so many; None: as many as the size has.
    """
    folder = out / experiment.name
    results = conduct(experiment, size, folder, jobs, told, most_runs=most_runs)
    drawn = write_figures(experiment, results, folder) if draw else []
    return write(experiment, results, folder, drawn)


def in_words(verdicts: Counter[str]) -> str:
    """ "3 agrees, 1 differs"; what there is to say where nothing is printed."""
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())) or "no printed numbers"


def write_summary(done: Sequence[tuple[Experiment, Counter[str]]], size: Size, out: Path) -> Path:
    """Writes the page of all experiments done; returns its path."""
    rows = [
        (
            f"[{experiment.name}]({experiment.name}/{REPORT})",
            experiment.title,
            experiment.source,
            in_words(verdicts),
        )
        for experiment, verdicts in done
    ]
    text = f"# Experiments, size {size}\n\n" + table(("experiment", "what", "source", "verdicts"), rows) + "\n"
    path = out / SUMMARY
    path.write_text(text, encoding="utf-8")
    return path
