"""`pollerd collection`: results of the focused crawler of a running daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd.api.formats import COLLECTION_SUFFIXES, CollectionFormat, CollectionPart
from pollerd.cli.client import TIMEOUT_SECONDS, daemon_at
from pollerd.cli.options import Json, Timeout, Token, Url, by_suffix
from pollerd.cli.output import show_fields, show_json, show_list, write
from pollerd.model import PageState

app = typer.Typer(no_args_is_help=True)

_COLUMNS = ("id", "state", "url", "relevance", "worth", "depth", "parent_id", "reason")
FormatOption = Annotated[
    CollectionFormat | None, typer.Option("--format", help="Default: by the file's name, else jsonl.")
]


@app.command()
def status(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """Show the state of the collection: size, relevance, freshness, harvest rate, pages by state."""
    with daemon_at(url, token, timeout) as daemon:
        collection: dict[str, Any] = daemon.call("GET", "/collection")
    if as_json:
        show_json(collection)
        return
    states = collection.pop("pages")
    show_fields({**collection, **{f"pages {state}": count for state, count in states.items()}})


@app.command()
def pages(
    state: Annotated[PageState | None, typer.Option(help="Only pages in this state.")] = None,
    host: Annotated[str | None, typer.Option(help="Only pages of this host (name:port).")] = None,
    min_relevance: Annotated[float | None, typer.Option(help="Only pages at least so relevant, 0 to 1.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """List pages: id, state, URL, relevance, worth, depth, the page that led there, why it was rejected.

    Example: pollerd collection pages --state collected
    """
    least = None if min_relevance is None else repr(min_relevance)
    with daemon_at(url, token, timeout) as daemon:
        rows = daemon.pages("/collection/pages", {"state": state, "host": host, "min_relevance": least})
        show_list(_COLUMNS, rows, as_json=as_json)


@app.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="Default: standard output.")] = None,
    format_: FormatOption = None,
    part: Annotated[CollectionPart, typer.Option(help="Contents of CSV and JSON lines.")] = CollectionPart.PAGES,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> None:
    """Write all pages with scores and parents, or the links between them; GraphML has both."""
    with daemon_at(url, token, timeout) as daemon:
        chosen = format_ or by_suffix(file, COLLECTION_SUFFIXES, CollectionFormat.JSON_LINES)
        write(daemon.download(f"/collection/export?format={chosen}&part={part}"), file)
