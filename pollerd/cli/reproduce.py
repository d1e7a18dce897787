"""`pollerd reproduce`: runs the papers' experiments again, and compares the results with the printed ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd.cli.output import show_json, show_rows, showing_progress
from pollerd.errors import InvalidValueError
from pollerd.lab.experiments.catalogue import experiment, experiments
from pollerd.lab.experiments.experiment import MAX_ENTROPY, Experiment, Size
from pollerd.lab.experiments.figures import require_matplotlib
from pollerd.lab.experiments.report import REPORT
from pollerd.lab.experiments.reproduction import in_words, write_summary
from pollerd.lab.experiments.reproduction import reproduce as conduct_and_write
from pollerd.texts import _


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; see --list.", show_default=False)] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Shows the experiments there are.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    full: Annotated[bool, typer.Option("--full/--quick", help="As in the paper, or in seconds to a minute each.")] = (
        False
    ),
    out: Annotated[
        Path, typer.Option(help="Folder of the reports, and of the runs that are done.", metavar="FOLDER")
    ] = Path("reproduced"),
    runs: Annotated[int | None, typer.Option(help="Maximum runs of each; later calls can add more.", min=1)] = None,
    entropy: Annotated[
        int,
        typer.Option(
            help="Any other number gives other seeds to all experiments: do the results depend on the seeds? "
            "0: those of the tables in the documentation.",
            min=0,
            max=MAX_ENTROPY,
        ),
    ] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; 0: one for each core.", min=0)] = 0,
    figures: Annotated[bool, typer.Option(help="Draw figures; needs matplotlib.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list, or the results, as JSON.")] = False,
) -> None:
    """Run the experiments of the papers, and write reports.

    Started again with the same --out, it resumes where it stopped. That folder keeps the runs of each
    --entropy apart; its reports are those of the last call.
    """
    if show_list:
        _show_list(as_json)
        return
    chosen = [each.with_entropy(entropy) for each in _chosen(names or [], everything)]
    if figures:
        require_matplotlib()
    try:
        results = _conduct(
            chosen, "full" if full else "quick", out, jobs or os.cpu_count() or 1, figures, runs, as_json
        )
    except KeyboardInterrupt:
        typer.echo(
            _("interrupted; what is done is kept in {out}, and the same command goes on from there", out=out), err=True
        )
        raise
    if as_json:
        show_json({"experiments": results, "entropy": entropy, "summary": str(write_summary(out))})
    else:
        typer.echo(f"all: {write_summary(out)}")


def _conduct(
    chosen: Sequence[Experiment], size: Size, out: Path, jobs: int, draw: bool, runs: int | None, as_json: bool
) -> list[dict[str, Any]]:
    """Runs the experiments one by one, and reports each when it is done; returns the results for JSON."""
    results = []
    for each in chosen:
        with showing_progress(each.name) as report_progress:
            verdicts = conduct_and_write(
                each, size, out, jobs=jobs, draw=draw, report_progress=report_progress, most_runs=runs
            )
        report = out / each.name / REPORT
        results.append({"name": each.name, "verdicts": dict(verdicts), "report": str(report)})
        if not as_json:
            typer.echo(f"{each.name}: {in_words(verdicts)} -> {report}")
    return results


def _show_list(as_json: bool) -> None:
    columns = ("name", "title", "source")
    rows = [(each.name, each.title, each.source) for each in experiments().values()]
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        show_rows(columns, rows)


def _chosen(names: list[str], everything: bool) -> list[Experiment]:
    if everything == bool(names):
        raise InvalidValueError("experiments", _("names, or --all; --list shows them"), names or "none")
    return list(experiments().values()) if everything else [experiment(name) for name in dict.fromkeys(names)]
