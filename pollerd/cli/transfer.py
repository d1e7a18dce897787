"""`pollerd export` and `pollerd import`: transfer all user settings between running daemons."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from pollerd.cli.client import TIMEOUT_SECONDS, ApiClient, daemon_at
from pollerd.cli.lists import patience_for
from pollerd.cli.options import Json, Timeout, Token, Url, existing_file
from pollerd.cli.output import CallError, ask_secret, clean, show_json, show_rows
from pollerd.errors import file_fault
from pollerd.texts import _, n_

_OCTETS = "application/octet-stream"
_MISSING_SHOWN = 20
_SECTION_COLUMNS = ("section", "status", "added", "changed", "unchanged", "reason")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
PassphraseFile = Annotated[
    Path | None, typer.Option("--passphrase-file", help="File with the passphrase. Default: you are prompted for it.")
]


def export(
    file: Annotated[Path, typer.Argument(help="- for standard output.")],
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Also headers, credentials and proxies, sealed under a passphrase.")
    ] = False,
    passphrase_file: PassphraseFile = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> None:
    """Export sites, rules, channels and settings. Also pauses, the budget, and sites that were deleted by hand.

    Secrets of sites are only named, unless --with-secrets: then they are encrypted with a passphrase.

    Example: pollerd export pollerd.jsonl
    """
    with daemon_at(url, token, timeout) as daemon:
        if with_secrets:
            headers = _spelled(_passphrase(passphrase_file, confirm=True))
            pieces = daemon.download("/export", "POST", headers)
        elif passphrase_file is not None:
            raise CallError(_("--passphrase-file seals secrets: it needs --with-secrets"))
        else:
            pieces = daemon.download("/export")
        _name_missing(_kept(pieces, file))


def import_(
    file: Annotated[Path, typer.Argument(help="File that export wrote.", parser=existing_file)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes, and make none.")] = False,
    passphrase_file: PassphraseFile = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Apply an export. Settings that it contains are set; all others stay.

    A file that is damaged, cut off or of another passphrase changes nothing. Exit code 1: it was refused.

    Example: pollerd import pollerd.jsonl --dry-run
    """
    with daemon_at(url, token, timeout) as daemon:
        report = _sent(daemon, file, dry_run, passphrase_file)
    if as_json:
        show_json(report)
    else:
        show_rows(_SECTION_COLUMNS, ([section[name] for name in _SECTION_COLUMNS] for section in report["sections"]))
        _show_missing(report["secrets_missing"], report["secrets_missing_count"], _("set them by hand"))
    raise typer.Exit(0 if report["complete"] else 1)


def _sent(daemon: ApiClient, file: Path, dry_run: bool, passphrase_file: Path | None) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            headers = {"Content-Length": str(os.fstat(opened.fileno()).st_size)}
            if passphrase_file is not None or _is_sealed(opened):
                headers |= _spelled(_passphrase(passphrase_file, confirm=False))
            opened.seek(0)
            patience = patience_for(daemon, int(headers["Content-Length"]))
            report: dict[str, Any] = daemon.upload(
                f"/import?dry_run={str(dry_run).lower()}", opened, _OCTETS, headers, timeout=patience
            )
    except OSError as error:
        raise CallError(file_fault(file, error)) from error
    return report


def _is_sealed(opened: IO[bytes]) -> bool:
    """Returns whether the first line announces secrets; the daemon rejects a file that is no export."""
    try:
        header = json.loads(opened.readline(65_536))
    except ValueError:
        return False
    return isinstance(header, dict) and header.get("secrets") is not None


def _passphrase(file: Path | None, *, confirm: bool) -> str:
    if file is None:
        if not sys.stdin.isatty():
            raise CallError(_("a passphrase is needed: name a file that holds it with --passphrase-file"))
        return ask_secret(_("Passphrase"), twice=confirm)
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CallError(_("--passphrase-file: {fault}", fault=file_fault(file, error))) from error


def _spelled(passphrase: str) -> dict[str, str]:
    """Encodes the passphrase as ASCII for a header. Never in a URL or an argument, which are logged and listed."""
    return {"Pollerd-Passphrase": base64.b64encode(passphrase.encode()).decode()}


# --- writing ---------------------------------------------------------------------------------------------------------


def _kept(pieces: Iterable[bytes], file: Path) -> list[dict[str, Any]]:
    """Writes the document, whole or not at all; returns the records whose secrets are omitted."""
    if str(file) == "-":
        missing = _written(pieces, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return missing
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(partial, _NEW, 0o600), "wb") as out:
            missing = _written(pieces, out)
        partial.replace(file)
    except OSError as error:
        raise CallError(file_fault(file, error)) from error
    finally:
        partial.unlink(missing_ok=True)
    return missing


def _written(pieces: Iterable[bytes], out: IO[bytes]) -> list[dict[str, Any]]:
    missing: list[dict[str, Any]] = []
    rest, ended = b"", False
    for piece in pieces:
        out.write(piece)
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if b'"secrets_left_out":' in line:
                missing.append(json.loads(line))
            ended = line.startswith(b'{"end":')
    if not ended:
        raise CallError(_("the export broke off"))
    return missing


def _name_missing(records: list[dict[str, Any]]) -> None:
    missing = [
        {
            "url": record.get("url"),
            "tag": record.get("tag"),
            "channel": record.get("channel"),
            "kinds": record["secrets_left_out"],
        }
        for record in records
        if "secrets_left_out" in record
    ]
    _show_missing(missing, len(missing), _("--with-secrets takes them along"))


def _show_missing(missing: list[dict[str, Any]], count: int, advice: str) -> None:
    if count:
        typer.echo(
            n_(
                "the secrets of {count} site, tag or channel are missing; {advice}:",
                "the secrets of {count} sites, tags or channels are missing; {advice}:",
                count,
                advice=advice,
            ),
            err=True,
        )
        for record in missing[:_MISSING_SHOWN]:
            kinds = ", ".join(record["kinds"])
            typer.echo("  " + _("{owner}: {kinds}", owner=clean(_owner(record)), kinds=kinds), err=True)
        if count > _MISSING_SHOWN:
            typer.echo("  " + _("and {count} more", count=count - _MISSING_SHOWN), err=True)


def _owner(missing: dict[str, Any]) -> str:
    """Returns whose secrets are missing."""
    if missing["url"]:
        return str(missing["url"])
    if missing["tag"]:
        return _("tag {name}", name=missing["tag"])
    return _("channel {name}", name=missing["channel"])
