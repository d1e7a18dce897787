"""`pollerd signals`: signal sources of a running daemon, and reports of changes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pollerd.cli.client import TIMEOUT_SECONDS, daemon_at
from pollerd.cli.options import Json, Timeout, Token, Url
from pollerd.cli.output import show_done, show_list, show_one
from pollerd.cli.sites import id_of
from pollerd.texts import _

app = typer.Typer(no_args_is_help=True)

SignalSourceId = Annotated[int, typer.Argument(metavar="ID", help="Id of the signal source.", min=1)]
_COLUMNS = ("id", "kind", "url", "name", "pages", "signals", "last_read_at", "last_signal_at", "last_detail", "quality")
_SITE_COLUMNS = ("source_id", "source", "date", "signalled_at", "waiting", "signals", "quality")


def _quality_in_words(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "quality": (row["quality"] or {}).get("in_words", _("not known"))}


@app.command("list")
def list_(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """List signal sources, and how reliable each is."""
    with daemon_at(url, token, timeout) as daemon:
        sources = daemon.call("GET", "/signal-sources")["items"]
        show_list(_COLUMNS, sources, as_json=as_json, row=_quality_in_words)


@app.command()
def add(
    source: Annotated[str, typer.Argument(metavar="SITE", help="Id or URL of a site; for --kind push a name.")],
    kind: Annotated[str, typer.Option(help="sitemap, feed, list (JSON or lines), links or push.")] = "sitemap",
    hosts: Annotated[str | None, typer.Option(help="same: only pages of its host; any: all sites.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Make a site a signal source: its polls report changes of other pages, which are then polled sooner.

    Example: pollerd signals add https://example.org/feed --kind feed
    """
    with daemon_at(url, token, timeout) as daemon:
        of_site = {"name": source} if kind == "push" else {"site_id": id_of(daemon, source)}
        show_one(daemon.call("POST", "/signal-sources", {"kind": kind, "hosts": hosts, **of_site}), as_json=as_json)


@app.command()
def show(
    source_id: SignalSourceId,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Show a signal source."""
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("GET", f"/signal-sources/{source_id}"), as_json=as_json)


@app.command()
def site(
    site: Annotated[str, typer.Argument(metavar="SITE", help="Id or URL.")],
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Show the latest signals about a site."""
    with daemon_at(url, token, timeout) as daemon:
        signals = daemon.call("GET", f"/sites/{id_of(daemon, site)}/signals")["items"]
        show_list(_SITE_COLUMNS, signals, as_json=as_json, row=_quality_in_words)


@app.command()
def remove(
    source_id: SignalSourceId,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Remove a signal source. Its site is polled as before."""
    with daemon_at(url, token, timeout) as daemon:
        daemon.call("DELETE", f"/signal-sources/{source_id}")
    show_done(_("removed {source_id}", source_id=source_id), {"id": source_id}, as_json=as_json)


@app.command()
def report(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a signal source of kind push.")],
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Pages that changed.")],
    at: Annotated[str | None, typer.Option(help="Time in RFC 3339 with an offset. Default: unknown.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Report changed pages. Each is polled when its turn comes, not at once."""
    body = {"source": name, "signals": [{"url": page_url, "at": at} for page_url in urls]}
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("POST", "/signals", body), as_json=as_json)
