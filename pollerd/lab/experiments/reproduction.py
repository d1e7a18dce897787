"""Runs experiments from the sweep to the report, and writes a summary of all verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pollerd.errors import InvalidValueError
from pollerd.lab.experiments.catalogue import experiments
from pollerd.lab.experiments.experiment import Experiment, Size
from pollerd.lab.experiments.figures import write_figures
from pollerd.lab.experiments.refusals import naming
from pollerd.lab.experiments.report import REPORT, table, write
from pollerd.lab.experiments.runner import ReportProgress, conduct
from pollerd.quantities import counted

SUMMARY, ENTRY = "README.md", "entry.json"


class ReportEntry(msgspec.Struct, frozen=True):
    """Row of an experiment in the summary; stored beside the experiment's report."""

    title: str
    source: str
    size: str
    verdicts: dict[str, int]
    entropy: int = 0


def reproduce(
    experiment: Experiment,
    size: Size,
    out: Path,
    *,
    jobs: int,
    draw: bool,
    report_progress: ReportProgress,
    most_runs: int | None = None,
) -> Counter[str]:
    """Does the missing runs and writes the experiment's folder `out/name`; returns the counts of verdicts.

    most_runs: limit of the runs of each cell; None: as many as the size has.
    """
    folder = out / experiment.name
    results = conduct(experiment, size, folder, jobs, report_progress, most_runs=most_runs)
    drawn = write_figures(experiment, results, folder) if draw else []
    verdicts = write(experiment, results, folder, drawn)
    entry = ReportEntry(experiment.title, experiment.source, size, dict(verdicts), experiment.entropy)
    with naming(folder):
        (folder / ENTRY).write_bytes(msgspec.json.encode(entry))
    return verdicts


_OF_SEVERAL = {
    "agrees": "agree",
    "differs": "differ",
    "differs, unexplained": "differ, unexplained",
    "claim came out": "claims came out",
    "claim did not": "claims did not",
}


def in_words(verdicts: Mapping[str, int]) -> str:
    """Formats verdicts, "3 agree, 1 differs"; or a text for experiments without printed numbers."""
    counts = (counted(count, verdict, _OF_SEVERAL.get(verdict, verdict)) for verdict, count in sorted(verdicts.items()))
    return ", ".join(counts) or "no printed numbers"


def write_summary(out: Path) -> Path:
    """Writes the summary of all experiments with a report in the folder, from any call; returns its path.

    Raises InvalidValueError for an invalid entry, and if the summary cannot be written.
    """
    place = {name: at for at, name in enumerate(experiments())}
    with naming(out):
        names = sorted(path.parent.name for path in out.glob(f"*/{REPORT}"))
        rows = [_row(out, name) for name in sorted(names, key=lambda name: place.get(name, len(place)))]
        path = out / SUMMARY
        text = table(("experiment", "what", "source", "size", "verdicts"), rows)
        path.write_text(f"# Experiments\n\n{text}\n", encoding="utf-8")
    return path


def _row(out: Path, name: str) -> tuple[str, ...]:
    link, path = f"[{name}]({name}/{REPORT})", out / name / ENTRY
    if not path.exists():  # its report is older than entries
        return (link, "", "", "", "see its report")
    try:
        entry = msgspec.json.decode(path.read_bytes(), type=ReportEntry)
    except msgspec.DecodeError as error:
        raise InvalidValueError(str(path), "the entry of an experiment", str(error)) from error
    size = entry.size + (f", entropy {entry.entropy}" if entry.entropy else "")
    return (link, entry.title, entry.source, size, in_words(entry.verdicts))
