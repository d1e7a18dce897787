"""`pollerd sites import --from`: sites of other programs, converted here, with a report on each key."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import typer

from pollerd import quantities
from pollerd.api.formats import Format, MovedFrom
from pollerd.api.list_formats import parse_list
from pollerd.cli.lists import SentList
from pollerd.cli.output import CallError, UnansweredError, clean, showing_progress
from pollerd.errors import ConfigError, InvalidValueError, file_fault
from pollerd.masking import masked
from pollerd.moving.fields import sendable
from pollerd.moving.files import json_lines, moved_of_file
from pollerd.moving.moved import Fate, Moved, ReportLine
from pollerd.texts import _, n_

# The client of another program's API, from which sites are moved: read only, one call at a time.

MAX_BODY_BYTES = 64 * 1024 * 1024
_KEY_HEADER = "x-api-key"


class _NoSourceRedirects(urllib.request.HTTPRedirectHandler):
    """Disables redirects, so that a key reaches only the program that it is for."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Follows no redirect: it is raised as an error."""
        return


class SourceClient:
    """Gets what changedetection.io at `url` (with or without /api/v1) tells; `key` may be None where none is needed.

    The address is trusted, as one that the user names: it typically is a private one. `timeout`: seconds of silence.
    Raises `InvalidValueError` for an invalid URL.
    """

    def __init__(self, url: str, key: str | None, *, timeout: float) -> None:
        try:
            parts = urlsplit(url)
            complete = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
        except ValueError:
            complete = False
        if not complete or "@" in parts.netloc:
            raise InvalidValueError(
                "source-url", _("an address such as http://127.0.0.1:5000, without a user name or password"), url
            )
        self._root = f"{url.rstrip('/').removesuffix('/api/v1')}/api/v1"
        self._address, self._timeout = masked(url), timeout
        self._headers = {} if key is None else {_KEY_HEADER: key}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoSourceRedirects())

    def get(self, path: str) -> tuple[int, bytes]:
        """Returns (status, body), whatever the status. Raises `UnansweredError`, or `CallError` for too long a body."""
        request = urllib.request.Request(self._root + path, headers=self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                status, body = response.status, response.read(MAX_BODY_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, b""
        except (OSError, http.client.HTTPException) as error:
            raise self._unanswered(error) from error
        if len(body) > MAX_BODY_BYTES:
            raise CallError(
                _(
                    "{address} answers with more than {max_body_bytes} MiB",
                    address=self._address,
                    max_body_bytes=MAX_BODY_BYTES // 1024**2,
                )
            )
        return status, body

    def _unanswered(self, error: Exception) -> UnansweredError:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            silence = quantities.duration(self._timeout)
            return UnansweredError(
                _(
                    "the source at {address} was silent for {silence}; --timeout waits longer",
                    address=self._address,
                    silence=silence,
                )
            )
        words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return UnansweredError(_("nothing answers at {address}: {reason}", address=self._address, reason=words))


_SHOWN = 200
"""Lines of the report on the terminal."""
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
            return _of_changedetection(source)
        if source.data is None or source.url is not None or source.key_file is not None:
            raise CallError(
                _("--from {program} needs a file of jobs; --source-url is for changedetection", program=source.program)
            )
        config = None if source.config is None else _content(source.config, _MAX_FILE_BYTES)
        return moved_of_file(source.program, source.data, config, exact=source.exact)
    except ConfigError as error:
        raise CallError(str(error)) from error


def _of_changedetection(source: MovingSource) -> Moved:
    from pollerd.moving.changedetection.api import read_api
    from pollerd.moving.changedetection.watch import move

    if source.config is not None:
        raise CallError(_("--config is for urlwatch and webchanges: a backup of changedetection.io holds its settings"))
    if (source.data is None) == (source.url is None):
        raise CallError(_("--from changedetection needs either a file or --source-url"))
    if source.data is not None:
        return moved_of_file(source.program, source.data, exact=source.exact)
    key = None if source.key_file is None else _content(source.key_file, _MAX_KEY_BYTES).decode("utf-8", "replace")
    client = SourceClient(str(source.url), key and key.strip(), timeout=source.timeout)
    with showing_progress("reading", "watches") as report_progress:
        return sendable(move(read_api(client, report_progress), exact=source.exact))


def _content(file: Path, most: int) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise CallError(file_fault(file, error)) from error
    if len(data) > most:
        raise CallError(_("{file} has more than {most} bytes", file=file, most=most))
    return data


def as_list(moved: Moved) -> SentList:
    """Returns the sites as they are sent to the daemon."""
    return SentList(Format.JSON_LINES, json_lines(moved), range(1, len(moved.sites) + 1))


def refused_sites(moved: Moved) -> list[dict[str, Any]]:
    """Returns the sites that an import refuses, by the same checks: their number in the list, and the reason."""
    sent = as_list(moved)
    entries = parse_list(sent.data, sent.form.media)
    return [{"line": line, "reason": str(entry)} for line, entry in entries if isinstance(entry, InvalidValueError)]


def say_report(moved: Moved, refused: Sequence[Mapping[str, Any]], file: Path | None) -> None:
    """Writes to standard error three lines on the whole, then what was refused or lost; all of it to the file."""
    if file is not None:
        _write(moved.report, file)
    counts, losses = moved.counts(), moved.losses()
    taken, kept = len(moved.sites) - len(refused), counts[Fate.CARRIED]
    others = _(", {count} more would be refused", count=len(refused)) if refused else ""
    typer.echo(
        n_(
            "pollerd: {count} site can be added{others}",
            "pollerd: {count} sites can be added{others}",
            taken,
            others=others,
        ),
        err=True,
    )
    otherwise, lost = counts[Fate.APPROXIMATED], counts[Fate.NOT_CARRIED]
    typer.echo(
        n_(
            "pollerd: {count} key carried, {otherwise} approximated, {lost} not carried",
            "pollerd: {count} keys carried, {otherwise} approximated, {lost} not carried",
            kept,
            otherwise=otherwise,
            lost=lost,
        ),
        err=True,
    )
    follows = _("what was refused, approximated or not carried follows; --report FILE has every key")
    nothing = _("nothing was lost")
    typer.echo(f"pollerd: {follows if losses or refused else nothing}", err=True)
    for entry in refused[:_SHOWN]:
        typer.echo(
            clean(f"entry {entry['line']} ({moved.sites[entry['line'] - 1]['url']}): {entry['reason']}"), err=True
        )
    for line in losses[:_SHOWN]:
        typer.echo(clean(str(line)), err=True)
    if len(losses) > _SHOWN:
        typer.echo(_("pollerd: {count} more lines; --report FILE has them all", count=len(losses) - _SHOWN), err=True)


def report_of(moved: Moved) -> list[dict[str, str]]:
    """Returns the report for JSON."""
    return [line._asdict() for line in moved.report]


def _write(report: list[ReportLine], file: Path) -> None:
    try:
        file.write_text("".join(f"{clean(str(line))}\n" for line in report))
    except OSError as error:
        raise CallError(file_fault(file, error)) from error
