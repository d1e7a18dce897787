"""How far a long piece of work is: a bar on a terminal, a plain line now and then elsewhere. On standard error."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_LINE_SECONDS = 10.0

Told = Callable[[int, int], None]
"""Told how much is done, of how much in all."""


@contextlib.contextmanager
def showing_progress(name: str) -> Iterator[Told]:
    """What it yields is to be told of progress."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(name)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(name: str) -> Told:
    said_at = time.monotonic()

    def told(done: int, total: int) -> None:
        nonlocal said_at
        if time.monotonic() >= said_at + _LINE_SECONDS:
            said_at = time.monotonic()
            typer.echo(f"{name}: {done} of {total} runs", err=True)

    return told
