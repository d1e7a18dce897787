"""What commands that speak to a running daemon have in common: their options, the client, tables, files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pollerd.cli.client import CallError, Client
from pollerd.config import client_defaults
from pollerd.errors import InvalidValueError

Url = Annotated[str | None, typer.Option("--url", help="The daemon; also POLLERD_URL.", show_default=False)]
Token = Annotated[str | None, typer.Option(help="Better given as POLLERD_TOKEN or POLLERD_TOKEN_FILE.")]
Json = Annotated[bool, typer.Option("--json", help="JSON, as the API has it.")]


@contextmanager
def daemon_at(url: str | None, token: str | None) -> Iterator[Client]:
    """A client of the daemon; what goes wrong ends the command with one clear line."""
    default_url, default_token = client_defaults()
    try:
        yield Client(url or default_url, token or default_token)
    except (CallError, InvalidValueError) as error:
        typer.echo(f"pollerd: {clean(str(error))}", err=True)
        raise typer.Exit(1) from error


def write(pieces: Iterable[bytes], file: Path | None) -> None:
    """Writes what is downloaded to the file; None: to standard output. Raises `CallError` where that cannot be."""
    if file is None:
        _write(pieces, sys.stdout.buffer)
        return
    with _opened(file) as out:
        _write(pieces, out)


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    try:
        with file.open("wb") as out:
            yield out
    except OSError as error:
        raise CallError(f"{file} cannot be written: {error.strerror}") from error


def _write(pieces: Iterable[bytes], out: IO[bytes]) -> None:
    for piece in pieces:
        out.write(piece)
    out.flush()


def show_rows(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table on a terminal, tab-separated lines elsewhere."""
    if not sys.stdout.isatty():
        for row in rows:
            typer.echo("\t".join(map(_cell, row)))
        return
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return clean(";".join(map(str, value)))
    if isinstance(value, float):
        return f"{value:.6g}"
    return clean(str(value))


def clean(text: str) -> str:
    """Nothing that a terminal takes for a command: parts of it were written by strangers."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
