"""How far a long piece of work is: a bar on a terminal, a plain line now and then elsewhere. On standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import typer

_LINE_SECONDS = 10.0

Told = Callable[[int, int], None]
"""Told how much is done, of how much in all."""


@contextlib.contextmanager
def showing_progress(name: str, unit: str = "runs") -> Iterator[Told]:
    """What it yields is to be told of progress, in so many units."""
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


def _lines(name: str, unit: str) -> Told:
    said_at = time.monotonic()

    def told(done: int, total: int) -> None:
        nonlocal said_at
        if time.monotonic() >= said_at + _LINE_SECONDS:
            said_at = time.monotonic()
            typer.echo(f"{name}: {done} of {total} {unit}", err=True)

    return told
