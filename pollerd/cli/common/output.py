"""What commands print: tables, JSON, files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from textwrap import indent
from typing import IO, Any, TypeVar

import typer

from pollerd import quantities
from pollerd.cli.common.call_errors import CallError
from pollerd.cli.common.text import clean

T = TypeVar("T")
_DURATIONS = frozenset({"min_interval", "max_interval", "half_life", "elapsed", "expected_interval"})
"""Fields of the API that are seconds: people read them as 30s, 5m, 1.5h."""


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


def show_json(value: object) -> None:
    """One JSON document; an iterator is a list, and is written as it comes."""
    if not isinstance(value, Iterator):
        typer.echo(json.dumps(value, indent=2))
        return
    items = _begun(value)
    before = "["
    try:
        for item in items:
            typer.echo(before + "\n" + indent(json.dumps(item, indent=2), "  "), nl=False)
            before = ","
    finally:  # a document, also where something goes wrong half-way
        typer.echo("[]" if before == "[" else "\n]")


def show_rows(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table on a terminal, tab-separated lines with their header elsewhere."""
    found = _begun(rows)
    if sys.stdout.isatty():
        _show_table(columns, found)
        return
    typer.echo("\t".join(columns))
    for row in found:
        typer.echo("\t".join(map(_cell, row)))


def _begun(items: Iterable[T]) -> Iterator[T]:
    """The items, of which the first was fetched already: what is wrong from the start comes before any output."""
    rest = iter(items)
    return chain([*islice(rest, 1)], rest)


def _show_table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None)
    try:
        for row in rows:
            table.add_row(*(Text(_cell(value)) for value in row))
    finally:  # what was done before something went wrong is shown
        Console().print(table)


def show_items(names: Iterable[str], items: Iterable[Mapping[str, Any]]) -> None:
    """A table of what a list of the API holds: a column for each of its fields that is named."""
    wanted = tuple(names)
    show_rows(wanted, ([in_words(name, item[name]) for name in wanted] for item in items))


def show_fields(item: Mapping[str, Any]) -> None:
    """One thing, a line a field."""
    show_rows(("field", "value"), ((name, in_words(name, value)) for name, value in item.items()))


def in_words(name: str, value: Any) -> Any:
    """The value of a field of the API as people read it."""
    return quantities.duration(value) if name in _DURATIONS and value is not None else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return clean(";".join(map(str, value)))
    if isinstance(value, float):
        return f"{value:.6g}"
    return clean(str(value))
