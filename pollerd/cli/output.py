"""Output of commands: tables, JSON, files."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from textwrap import indent
from typing import IO, Any, TypeVar

import typer

from pollerd import quantities
from pollerd.errors import PollerdError, file_fault
from pollerd.site_settings import SITE_SETTINGS, Kind
from pollerd.texts import _

# Untrusted text, made safe for a terminal.


def clean(text: str) -> str:
    """Returns one line without control characters for the terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def clean_line(text: str) -> str:
    """Like `clean`, for a line of a page: keeps tabs, which are harmless."""
    return "\t".join(map(clean, text.split("\t")))


# Errors name what was typed: the option, not the field that it sets.

_typed = dict[str, str]()
"""Field -> the option that set it, in this call."""
_FIRST_FIELD = re.compile(r"([a-z_]+)(?:\.default\.steps\[0\]\.keep\.(?:css|xpath|jsonpath))?(?=[:,.\[])")
_NAMES_OF_RULE = re.compile(r"rule\.([a-z_.]+)(?:\[\d+\])?(?:\.[a-z_]+)?")


def note_options(options: Mapping[str, Sequence[str]], words: Sequence[str]) -> None:
    """Notes which options a command was called with. options: by name, their spellings; words: its command line."""
    _typed.clear()
    for name, spellings in options.items():
        used = (
            spelling
            for spelling in spellings
            if spelling.startswith("--") and any(spelling == word.split("=")[0] for word in words)
        )
        _typed.update((name, spelling) for spelling in used)


def as_typed(message: str) -> str:
    """Returns the message of an error, with the option in place of the field that it begins with."""
    field = _FIRST_FIELD.match(message)
    if field is not None and field[1] in _typed:
        return _typed[field[1]] + message[field.end() :]
    path, colon, rest = message.partition(": ")  # of a document that options make up, such as rule.digest.at
    names = _NAMES_OF_RULE.fullmatch(path)
    keys = [] if names is None else reversed(names[1].split("."))
    option = next((_typed[name] for key in keys for name in (key, key.removesuffix("s")) if name in _typed), None)
    return f"{option}{colon}{rest}" if option else message


def ask_secret(prompt: str, *, twice: bool = False) -> str:
    """Returns what the user types, without showing it. twice: it is asked for until it is typed the same again."""
    while True:
        typed = str(typer.prompt(prompt, hide_input=True, err=True))
        if not twice or typer.prompt(_("The same again"), hide_input=True, err=True) == typed:
            return typed
        typer.echo(_("The two are not the same: type both again."), err=True)


class CallError(PollerdError):
    """The daemon refuses the call, or an error on this side prevents it."""


class UnansweredError(CallError):
    """The daemon cannot be reached, is silent, or is temporarily unable to answer."""


T = TypeVar("T")
_DURATIONS = frozenset(
    {name for name, setting in SITE_SETTINGS.items() if setting.kind is Kind.SECONDS}
    | {"half_life_low", "half_life_high", "half_life_in_force", "learned_half_life"}
    | {"elapsed", "expected_interval", "interval", "learned_interval"}
)
"""Fields of the API in seconds: shown as 30s, 5m, 1.5h."""


def write(pieces: Iterable[bytes], file: Path | None) -> None:
    """Writes a download to the file; None: to standard output. Raises `CallError` on failure."""
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
        raise CallError(file_fault(file, error)) from error


def _write(pieces: Iterable[bytes], out: IO[bytes]) -> None:
    for piece in pieces:
        out.write(piece)
    out.flush()


def show_json(value: object) -> None:
    """Writes one JSON document; an iterator is written as a list while it is read."""
    if not isinstance(value, Iterator):
        typer.echo(json.dumps(value, indent=2))
        return
    items = _begun(value)
    before = "["
    try:
        for item in items:
            typer.echo(before + "\n" + indent(json.dumps(item, indent=2), "  "), nl=False)
            before = ","
    finally:  # a valid document even after an error
        typer.echo("[]" if before == "[" else "\n]")


def show_rows(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Writes a table on a terminal, tab-separated lines with a header elsewhere."""
    lines = _begun(rows)
    if sys.stdout.isatty():
        _show_table(columns, lines)
        return
    typer.echo("\t".join(columns))
    for row in lines:
        typer.echo("\t".join(map(_cell, row)))


def _begun(items: Iterable[T]) -> Iterator[T]:
    """Fetches the first item, so that early errors come before any output."""
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
    finally:  # shows what was done before an error
        Console().print(table)


def show_items(names: Iterable[str], items: Iterable[Mapping[str, Any]]) -> None:
    """Writes a table of a list of the API, with a column for each named field."""
    columns = tuple(names)
    show_rows(columns, ([in_words(name, item[name]) for name in columns] for item in items))


def show_fields(item: Mapping[str, Any]) -> None:
    """Writes one object, a line per field."""
    show_rows(("field", "value"), ((name, in_words(name, value)) for name, value in item.items()))


def show_list(
    names: Iterable[str],
    items: Iterable[Mapping[str, Any]],
    *,
    as_json: bool,
    row: Callable[[dict[str, Any]], Mapping[str, Any]] = dict,
) -> None:
    """Writes a list of the API: a table with these fields of its rows, or JSON with all. row: makes one of an item."""
    if as_json:
        show_json(items)
    else:
        show_items(names, (row(dict(item)) for item in items))


def show_one(item: Mapping[str, Any], *, as_json: bool) -> None:
    """Writes one object of the API."""
    if as_json:
        show_json(item)
    else:
        show_fields(item)


def show_done(line: str, item: Mapping[str, Any], *, as_json: bool) -> None:
    """Writes what was done: a line, or JSON."""
    if as_json:
        show_json(item)
    else:
        typer.echo(clean(line))


def in_words(name: str, value: Any) -> Any:
    """Returns the value of an API field in readable form."""
    if name == "next_30_days" and isinstance(value, dict):
        return _("{low:,} to {high:,} changes (90 % confidence); median {median:,}", **value)
    return quantities.duration(value) if name in _DURATIONS and value is not None else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return clean(";".join(map(str, value)))
    if isinstance(value, float):
        return f"{value:.6g}"
    return clean(str(value))


# Progress of long work on standard error: a bar on a terminal, occasional plain lines elsewhere.

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
