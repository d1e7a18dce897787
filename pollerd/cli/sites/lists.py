"""`pollerd sites import` and `export`: lists of sites to and from a running daemon."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd.api.http.format_names import SUFFIXES, Format
from pollerd.cli.client.client import TIMEOUT_SECONDS
from pollerd.cli.client.connection import WRONG, daemon_at
from pollerd.cli.common.files import by_suffix
from pollerd.cli.common.options import Json, Timeout, Token, Url
from pollerd.cli.common.output import show_json, write
from pollerd.cli.common.text import clean
from pollerd.cli.sites.importing import REJECTED_ENOUGH, list_of, send_list
from pollerd.list_document import FORMATS

_REJECTED_SHOWN = 20
_WITHOUT_SETTINGS = frozenset({"text"})
_HELP = "By the file's name where left out, else text."
FormatOption = Annotated[Format | None, typer.Option("--format", help=_HELP)]


class ListForm(StrEnum):
    """Formats of a list that is read."""

    TEXT = "text"
    CSV = "csv"
    JSON_LINES = "jsonl"
    OPML = "opml"
    TOML = "toml"
    YAML = "yaml"


def import_(
    file: Annotated[typer.FileBinaryRead, typer.Argument(help="- for standard input.")],
    format_: Annotated[ListForm | None, typer.Option("--format", help=_HELP)] = None,
    max_rejected: Annotated[int, typer.Option(help="Stop after so many bad lines.", min=1)] = REJECTED_ENOUGH,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Adds the sites of a file, in any format that run reads: text, CSV, JSON lines, OPML, TOML or YAML.

    It only adds: sites that exist keep their settings. Exit code 1 where a line was rejected; the others are added all
    the same.
    """
    with daemon_at(url, token, timeout) as daemon:
        name = _name(file)
        form = format_ or by_suffix(name, FORMATS, "text")
        sent = list_of(file.read(), form, Path("." if name is None else name).parent)
        result = send_list(daemon, sent, max_rejected)
    if as_json:
        show_json(result)
    else:
        _say(result, sent.place)
        if result["existing"] and form not in _WITHOUT_SETTINGS:
            diff = (
                "`pollerd sites diff FILE --sync` tells where the list has others, `pollerd run FILE --sync` sets them"
            )
            typer.echo(f"pollerd: what existed already keeps its settings: {diff}", err=True)
    raise typer.Exit(WRONG if result["rejected_count"] else 0)


def export(
    file: Annotated[Path | None, typer.Argument(help="Standard output where left out.")] = None,
    format_: FormatOption = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> None:
    """Writes all sites with their settings, as `import` reads them. Plain text keeps the URLs only."""
    with daemon_at(url, token, timeout) as daemon:
        chosen = format_ or by_suffix(file, SUFFIXES, Format.TEXT)
        write(daemon.download(f"/sites/export?format={chosen}"), file)


def _name(file: typer.FileBinaryRead) -> str | None:
    """Returns the file's name; None for standard input, which has none."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) and not name.startswith("<") else None


def _say(result: dict[str, Any], place: str) -> None:
    for line in result["rejected"][:_REJECTED_SHOWN]:
        typer.echo(f"{place} {line['line']}: {clean(line['reason'])}", err=True)
    count = result["rejected_count"]
    typer.echo(f"{result['added']} added, {result['existing']} existed already, {count} rejected")
    if result["stopped"] is not None:
        typer.echo(f"pollerd: stopped: {clean(result['stopped'])}", err=True)
