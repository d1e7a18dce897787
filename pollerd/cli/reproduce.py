"""`pollerd reproduce`: the papers' tables and figures, run anew and compared with what was printed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pollerd.cli.progress import showing_progress
from pollerd.errors import InvalidValueError
from pollerd.simulation.experiments.catalogue import experiment, experiments
from pollerd.simulation.experiments.experiment import Experiment, Size
from pollerd.simulation.experiments.figures import require_matplotlib
from pollerd.simulation.experiments.report import REPORT
from pollerd.simulation.experiments.reproduction import in_words, write_summary
from pollerd.simulation.experiments.reproduction import reproduce as conduct_and_write


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; see --list.", show_default=False)] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Shows the experiments there are.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    full: Annotated[bool, typer.Option("--full/--quick", help="As in the paper, or in seconds to a minute each.")] = (
        False
    ),
    out: Annotated[Path, typer.Option(help="Folder of the reports, and of the runs that are done.")] = Path(
        "reproduced"
    ),
    runs: Annotated[
        int | None, typer.Option(help="At most so many runs of each; more may follow later.", min=1)
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes; 0: one for each core.", min=0)] = 0,
    figures: Annotated[bool, typer.Option(help="Draw figures; needs matplotlib.")] = True,
) -> None:
    """Runs experiments of the papers and ours, and writes reports: printed and own numbers side by side.

    Broken off, it goes on where it stopped when started again with the same --out.
    """
    if show_list:
        _print_list()
        return
    chosen = _chosen(names or [], everything)
    if figures:
        require_matplotlib()
    try:
        _conduct(chosen, "full" if full else "quick", out, jobs or os.cpu_count() or 1, figures, runs)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; what is done is kept in {out}, and the same command goes on from there", err=True)
        raise


def _conduct(chosen: Sequence[Experiment], size: Size, out: Path, jobs: int, draw: bool, runs: int | None) -> None:
    for each in chosen:
        with showing_progress(each.name) as told:
            verdicts = conduct_and_write(each, size, out, jobs=jobs, draw=draw, told=told, most_runs=runs)
        typer.echo(f"{each.name}: {in_words(verdicts)} -> {out / each.name / REPORT}")
    typer.echo(f"all: {write_summary(out)}")


def _print_list() -> None:
    for each in experiments().values():
        typer.echo(f"{each.name:24} {each.title} ({each.source})")


def _chosen(names: list[str], everything: bool) -> list[Experiment]:
    if everything == bool(names):
        raise InvalidValueError("experiments", "names, or --all; --list shows them", names or "none")
    return list(experiments().values()) if everything else [experiment(name) for name in dict.fromkeys(names)]
