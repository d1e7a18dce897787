"""Shows progress of long work on standard error: a bar on a terminal, occasional plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import typer

_LINE_SECONDS = 10.0

ReportProgress = Callable[[int, int], None]
"""Called with the work done, and the total."""


@contextlib.contextmanager
def showing_progress(name: str, unit: str = "runs") -> Iterator[ReportProgress]:
    """Yields the function to call with progress in this unit."""
    if not sys.stderr.isatty():
        yield _lines(name, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(name: str, unit: str) -> ReportProgress:
    reported_at = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal reported_at
        if time.monotonic() >= reported_at + _LINE_SECONDS:
            reported_at = time.monotonic()
            typer.echo(f"{name}: {done} of {total} {unit}", err=True)

    return report
