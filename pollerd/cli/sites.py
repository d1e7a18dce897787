"""`pollerd sites`: the sites of a running daemon."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd.api import Format
from pollerd.cli.client import CallError, Client
from pollerd.cli.output import Json, Token, Url, clean, daemon_at, show_rows, write
from pollerd.model import SiteState
from pollerd.urls import normalise_url

app = typer.Typer(help="The sites of a running daemon.", no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(metavar="SITE...", help="Ids or URLs.")]
Name = Annotated[str, typer.Argument(metavar="SITE", help="Id or URL.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="May be given more than once.")]
Seconds = Annotated[float | None, typer.Option(help="Seconds.")]

_COLUMNS = ("id", "state", "url", "rate_per_day", "polls", "changes", "last_outcome", "last_poll_at", "tags")
_REJECTED_SHOWN = 20


_SUFFIXES = {".csv": Format.CSV, ".jsonl": Format.JSON_LINES, ".ndjson": Format.JSON_LINES, ".opml": Format.OPML}
FormatOption = Annotated[Format | None, typer.Option("--format", help="By the file's name where left out, else text.")]


@app.command()
def add(
    sites: Annotated[list[str], typer.Argument(metavar="URL...")],
    weight: Annotated[float, typer.Option(help="What one change is worth.")] = 1.0,
    cost: Annotated[float, typer.Option(help="What one poll costs of the budget.")] = 1.0,
    tag: Tags = None,
    min_interval: Seconds = None,
    max_interval: Seconds = None,
    half_life: Seconds = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Adds sites; all get the same settings."""
    settings = {
        "weight": weight,
        "cost": cost,
        "tags": tag or [],
        "min_interval": min_interval,
        "max_interval": max_interval,
        "half_life": half_life,
    }
    with daemon_at(url, token) as daemon:
        added = [daemon.call("POST", "/sites", {"url": site, **settings}) for site in sites]
        _show_list(added, as_json)


@app.command(name="list")
def list_(
    q: Annotated[str | None, typer.Option("--q", help="Part of the URL.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only sites with this tag.")] = None,
    state: Annotated[SiteState | None, typer.Option(help="Only sites in this state.")] = None,
    host: Annotated[str | None, typer.Option(help="Only sites of this host, as name:port.")] = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Lists sites: id, state, URL, changes per day, polls, changes, last outcome, last poll, tags."""
    with daemon_at(url, token) as daemon:
        _show_list(daemon.pages("/sites", {"q": q, "tag": tag, "state": state, "host": host}), as_json)


@app.command()
def show(site: Name, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Shows all of one site, and why it is polled as it is."""
    with daemon_at(url, token) as daemon:
        site_id = _id(daemon, site)
        found = daemon.call("GET", f"/sites/{site_id}")
        found["explain"] = daemon.call("GET", f"/sites/{site_id}/explain")
        if as_json:
            typer.echo(json.dumps(found, indent=2))
        else:
            explain = found.pop("explain")
            show_rows(("field", "value"), [*found.items(), *(i for i in explain.items() if i[0] not in found)])


@app.command()
def remove(sites: Names, url: Url = None, token: Token = None) -> None:
    """Removes sites with all that was recorded of them."""
    with daemon_at(url, token) as daemon:
        for site in sites:
            site_id = _id(daemon, site)
            daemon.call("DELETE", f"/sites/{site_id}")
            typer.echo(f"removed {site_id}")


@app.command(name="import")
def import_(
    file: Annotated[typer.FileBinaryRead, typer.Argument(help="- for standard input.")],
    format_: FormatOption = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Adds the sites of a file: one URL a line, CSV with a header, JSON lines, or OPML.

    Exit code 1 where a line was rejected; the others are added all the same.
    """
    chosen = format_ or _SUFFIXES.get(Path(getattr(file, "name", "")).suffix.lower(), Format.TEXT)
    with daemon_at(url, token) as daemon:
        result = daemon.upload("/sites/import", file.read(), chosen.media)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        for line in result["rejected"][:_REJECTED_SHOWN]:
            typer.echo(f"line {line['line']}: {clean(line['reason'])}", err=True)
        count = result["rejected_count"]
        typer.echo(f"{result['added']} added, {result['existing']} existed already, {count} rejected")
    raise typer.Exit(1 if result["rejected_count"] else 0)


@app.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="Standard output where left out.")] = None,
    format_: FormatOption = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Writes all sites with their settings, as `import` reads them. Plain text keeps the URLs only."""
    chosen = format_ or (_SUFFIXES.get(file.suffix.lower(), Format.TEXT) if file else Format.TEXT)
    with daemon_at(url, token) as daemon:
        write(daemon.download(f"/sites/export?format={chosen}"), file)


def _id(daemon: Client, site: str) -> int:
    """The id of a site named by id or URL."""
    if site.isdecimal():
        return int(site)
    url = normalise_url(site)
    for found in daemon.pages("/sites", {"q": url}):
        if found["url"] == url:
            return int(found["id"])
    raise CallError(f"no such site: {url}")


def _show_list(sites: Iterable[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(list(sites), indent=2))
    else:
        show_rows(_COLUMNS, ([site[name] for name in _COLUMNS] for site in sites))
