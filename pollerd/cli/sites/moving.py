"""Moving in: sites of other programs, converted here, with a report of what becomes of each key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from pollerd.api.http.format_names import Format
from pollerd.cli.client.source import SourceClient
from pollerd.cli.common.call_errors import CallError
from pollerd.cli.common.progress import showing_progress
from pollerd.cli.common.text import clean
from pollerd.cli.sites.importing import SentList
from pollerd.cli.sites.moved_from import MovedFrom
from pollerd.errors import ConfigError
from pollerd.masking import NOT_SHOWN
from pollerd.moving.fields import sendable
from pollerd.moving.moved import Fate, Moved, ReportLine
from pollerd.quantities import counted

_SHOWN = 200
"""Lines of the report on the terminal."""
_SECRET = ("headers", "credentials", "proxy", "pdf_password", "body", "render")
_MAX_KEY_BYTES = 4096
_MAX_FILE_BYTES = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class MovingSource:
    """Where the other program's settings are read from."""

    program: MovedFrom
    data: bytes | None
    """The file; None: the program's API."""
    config: Path | None = None
    url: str | None = None
    key_file: Path | None = None
    timeout: float = 10.0
    exact: bool = False


def moved_from(source: MovingSource) -> Moved:
    """Converts what the source has. Raises `CallError` where it cannot be read."""
    try:
        if source.program is MovedFrom.CHANGEDETECTION:
            return sendable(_of_changedetection(source))
        return sendable(_of_jobs(source))
    except ConfigError as error:
        raise CallError(str(error)) from error


def _of_jobs(source: MovingSource) -> Moved:
    from pollerd.moving.urlwatch.dialect import URLWATCH, WEBCHANGES
    from pollerd.moving.urlwatch.jobs import read_jobs

    if source.data is None or source.url is not None or source.key_file is not None:
        raise CallError(f"--from {source.program} needs a file of jobs; --source-url is for changedetection")
    dialect = URLWATCH if source.program is MovedFrom.URLWATCH else WEBCHANGES
    config = None if source.config is None else _content(source.config, _MAX_FILE_BYTES)
    return read_jobs(source.data, dialect, config, exact=source.exact)


def _of_changedetection(source: MovingSource) -> Moved:
    from pollerd.moving.changedetection.api import read_api
    from pollerd.moving.changedetection.backup import read_backup
    from pollerd.moving.changedetection.watch import move

    if source.config is not None:
        raise CallError("--config is for urlwatch and webchanges: a backup of changedetection.io holds its settings")
    if (source.data is None) == (source.url is None):
        raise CallError("--from changedetection needs either a file or --source-url")
    if source.data is not None:
        return move(read_backup(source.data), exact=source.exact)
    key = None if source.key_file is None else _content(source.key_file, _MAX_KEY_BYTES).decode("utf-8", "replace")
    client = SourceClient(str(source.url), key and key.strip(), timeout=source.timeout)
    with showing_progress("reading", "watches") as report_progress:
        return move(read_api(client, report_progress), exact=source.exact)


def _content(file: Path, most: int) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise CallError(f"{file} cannot be read: {error.strerror}") from error
    if len(data) > most:
        raise CallError(f"{file} has more than {most} bytes")
    return data


def as_list(moved: Moved) -> SentList:
    """Returns the sites as they are sent to the daemon."""
    lines = [json.dumps(site, default=str) for site in moved.sites]
    return SentList(Format.JSON_LINES, "\n".join(lines).encode(), range(1, len(lines) + 1))


def without_secrets(site: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a site as it may be shown: of headers the names, of all else that may be secret nothing."""
    shown = {name: NOT_SHOWN if name in _SECRET else value for name, value in site.items()}
    if isinstance(site.get("headers"), Mapping):
        shown["headers"] = dict.fromkeys(site["headers"], NOT_SHOWN)
    return shown


def say_report(moved: Moved, file: Path | None) -> None:
    """Writes what was lost to standard error, and all of the report to the file."""
    if file is not None:
        _write(moved.report, file)
    losses = moved.losses()
    for line in losses[:_SHOWN]:
        typer.echo(clean(str(line)), err=True)
    if len(losses) > _SHOWN:
        typer.echo(f"pollerd: {len(losses) - _SHOWN} more lines; --report FILE has them all", err=True)
    counts = moved.counts()
    told = ", ".join(f"{counts[fate]} {fate}" for fate in (Fate.CARRIED, Fate.APPROXIMATED, Fate.NOT_CARRIED))
    typer.echo(f"pollerd: {counted(len(moved.sites), 'site')}; keys: {told}", err=True)


def report_of(moved: Moved) -> list[dict[str, str]]:
    """Returns the report for JSON."""
    return [line._asdict() for line in moved.report]


def _write(report: list[ReportLine], file: Path) -> None:
    try:
        file.write_text("".join(f"{clean(str(line))}\n" for line in report))
    except OSError as error:
        raise CallError(f"{file} cannot be written: {error.strerror}") from error
