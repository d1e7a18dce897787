"""`pollerd collection`: what the topic robot of a running daemon has found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd.api import CollectionFormat, CollectionPart
from pollerd.cli.output import Json, Token, Url, daemon_at, show_rows, write
from pollerd.model import PageState

app = typer.Typer(help="What the topic robot of a running daemon has found.", no_args_is_help=True)

_COLUMNS = ("id", "state", "url", "relevance", "worth", "depth", "parent_id", "reason")
_SUFFIXES = {
    ".csv": CollectionFormat.CSV,
    ".jsonl": CollectionFormat.JSON_LINES,
    ".ndjson": CollectionFormat.JSON_LINES,
    ".graphml": CollectionFormat.GRAPHML,
}
FormatOption = Annotated[
    CollectionFormat | None, typer.Option("--format", help="By the file's name where left out, else jsonl.")
]


@app.command()
def status(url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Shows how the collection stands: size, relevance, freshness, harvest rate, pages by state."""
    with daemon_at(url, token) as daemon:
        found: dict[str, Any] = daemon.call("GET", "/collection")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    states = found.pop("pages")
    show_rows(("field", "value"), [*found.items(), *((f"pages {state}", count) for state, count in states.items())])


@app.command()
def pages(
    state: Annotated[PageState | None, typer.Option(help="Only pages in this state.")] = None,
    host: Annotated[str | None, typer.Option(help="Only pages of this host, as name:port.")] = None,
    min_relevance: Annotated[float | None, typer.Option(help="Only pages at least so relevant, 0 to 1.")] = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Lists pages: id, state, URL, relevance, worth, depth, the page that led there, why it was rejected."""
    least = None if min_relevance is None else repr(min_relevance)
    with daemon_at(url, token) as daemon:
        found = daemon.pages("/collection/pages", {"state": state, "host": host, "min_relevance": least})
        if as_json:
            typer.echo(json.dumps(list(found), indent=2))
        else:
            show_rows(_COLUMNS, ([page[name] for name in _COLUMNS] for page in found))


@app.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="Standard output where left out.")] = None,
    format_: FormatOption = None,
    part: Annotated[CollectionPart, typer.Option(help="What CSV and JSON lines hold.")] = CollectionPart.PAGES,
    url: Url = None,
    token: Token = None,
) -> None:
    """Writes all pages with scores and parents, or the links between them; GraphML holds both."""
    by_name = CollectionFormat.JSON_LINES if file is None else _SUFFIXES.get(file.suffix.lower())
    chosen = format_ or by_name or CollectionFormat.JSON_LINES
    with daemon_at(url, token) as daemon:
        write(daemon.download(f"/collection/export?format={chosen}&part={part}"), file)
