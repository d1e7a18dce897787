"""`pollerd sites diff`: compares a list with the sites of a running daemon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd.cli.client.client import TIMEOUT_SECONDS, ApiClient
from pollerd.cli.client.connection import daemon_at
from pollerd.cli.common.call_errors import CallError
from pollerd.cli.common.options import Json, Timeout, Token, Url
from pollerd.cli.common.output import show_json
from pollerd.cli.common.text import clean
from pollerd.cli.sites.importing import list_of, patience_for, sendable
from pollerd.errors import ConfigError
from pollerd.list_document import DOCUMENTS, format_of

_SAME, _DIFFERENT, _ERROR = 0, 1, 2
_OCTETS = "application/octet-stream"
_KINDS = ("added", "changed", "removed")
_BESIDES = {
    "tags": "tag",
    "sources": "source",
    "signal_sources": "signal source",
    "channels": "channel",
    "rules": "rule",
}
"""What a document has besides sites -> one of them."""
_OWN = frozenset({"channels", "rules", "signal_sources"})
"""Of these a document is the truth about its own, with --sync or without."""


def diff(
    file: Annotated[Path, typer.Argument(help="The list, in any format that run reads.")],
    sync: Annotated[bool, typer.Option("--sync", help="As run --sync: the list is the whole truth.")] = False,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Says what a list would change, and changes nothing.

    Exit code 0: nothing, 1: something, 2: it cannot be told, or lines of the list cannot be used.
    """
    try:
        with daemon_at(url, token, timeout) as daemon:
            found = _asked(daemon, file, sync)
    except typer.Exit as ended:  # the error was already reported
        raise typer.Exit(_ERROR) from ended
    show_json(found) if as_json else _show(found, file)
    raise typer.Exit(_code(found))


def _asked(daemon: ApiClient, file: Path, sync: bool) -> dict[str, Any]:
    try:
        sent = list_of(file.read_bytes(), format_of(file), file.parent)
    except OSError as error:
        raise CallError(f"{file} cannot be read: {error.strerror}") from error
    except (CallError, ConfigError) as error:
        raise CallError(f"{file}: {error}") from error
    path, patience = f"/sites/diff?format={sent.form}&sync={str(sync).lower()}", patience_for(daemon, len(sent.data))
    found: dict[str, Any] = daemon.upload(path, sent.data, _OCTETS, timeout=patience)
    if format_of(file) in DOCUMENTS:
        found |= {what: _settings(daemon, what, getattr(sent, what), sync) for what in _BESIDES}
    for one in found["rejected"]:
        one["line"] = sent.number(one["line"])
    found["rejected"] = sorted([*sent.refused, *found["rejected"]], key=lambda one: int(one["line"]))
    found["rejected_count"] += len(sent.refused)
    return found


def _settings(daemon: ApiClient, what: str, listed: Any, sync: bool) -> dict[str, Any]:
    """Returns what the list would change of tags, sources, signal sources, channels or rules."""
    if not (listed or sync or what in _OWN):
        return {"added": [], "changed": [], "removed": []}
    query = "" if what in _OWN else f"?sync={str(sync).lower()}"
    found: dict[str, Any] = daemon.call("POST", f"/{what.replace('_', '-')}/diff{query}", {what: sendable(listed)})
    return found


def _code(found: dict[str, Any]) -> int:
    if found["rejected_count"]:
        return _ERROR
    same = not any(found[f"{kind}_count"] for kind in _KINDS)
    same = same and not any(found[what][kind] for what in _BESIDES if what in found for kind in _KINDS)
    return _SAME if same else _DIFFERENT


def _show(found: dict[str, Any], file: Path) -> None:
    for one in found["rejected"]:
        typer.echo(f"{file}, {_place(file)} {one['line']}: {clean(one['reason'])}", err=True)
    for sign, kind in (("+", "added"), ("-", "removed"), ("!", "left_out_as_deleted")):
        for site in found[kind]:
            typer.echo(f"{sign} {clean(site)}{' (deleted by hand; only --sync brings it back)' if sign == '!' else ''}")
    for site in found["changed"]:
        _show_changed(site["url"], site["fields"])
    for what, word in _BESIDES.items():
        _show_besides(found.get(what, {}), word)
    counts = ", ".join(f"{found[f'{kind}_count']} {kind}" for kind in (*_KINDS, "rejected"))
    besides = [_counted(found[what], what) for what in _BESIDES if what in found]
    typer.echo("; ".join([counts, *filter(None, besides)]))


def _show_changed(name: str, fields: list[dict[str, Any]]) -> None:
    typer.echo(f"~ {clean(name)}")
    for field in fields:
        typer.echo(f"    {field['field']}: {_value(field['before'])} -> {_after(field)}")


def _show_besides(found: dict[str, Any], word: str) -> None:
    for name in found.get("added", ()):
        typer.echo(f"+ {word} {clean(name)}")
    for name in found.get("removed", ()):
        with_sites = ", with the sites that it added and that are not in the list" if word == "source" else ""
        typer.echo(f"- {word} {clean(name)}{with_sites}")
    for one in found.get("changed", ()):
        _show_changed(f"{word} {one['name']}", one["fields"])


def _counted(found: dict[str, Any], what: str) -> str:
    counts = [f"{len(found[kind])} {kind}" for kind in _KINDS if found[kind]]
    return f"{what}: {', '.join(counts)}" if counts else ""


def _place(file: Path) -> str:
    return "entry" if format_of(file) in DOCUMENTS else "line"


def _after(field: dict[str, Any]) -> str:
    return str(field["note"]) if field["note"] else _value(field["after"])


def _value(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, dict):
        return clean(json.dumps(value, ensure_ascii=False))
    if isinstance(value, list):
        return clean(";".join(map(str, value))) or "none"
    return clean(f"{value:g}" if isinstance(value, float) else str(value).lower() if value in (True, False) else value)
