"""`pollerd reads`: reads of changes, reported to a running daemon, and the half-lives learned from them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Annotated

import typer

from pollerd.cli.client import TIMEOUT_SECONDS, daemon_at
from pollerd.cli.options import Json, Timeout, Token, Url
from pollerd.cli.output import show_done, show_one
from pollerd.cli.sites import id_of
from pollerd.texts import _

app = typer.Typer(no_args_is_help=True)

_Site = Annotated[str, typer.Argument(metavar="SITE", help="Id or URL.")]


@app.command()
def report(
    site: _Site,
    at: Annotated[str | None, typer.Option(help="Time in RFC 3339 with an offset. Default: now.")] = None,
    count: Annotated[int, typer.Option(help="How often.", min=1)] = 1,
    change: Annotated[
        int | None, typer.Option(help="Id of the change. Default: the newest at that time.", min=1)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the report; a second one of this name is ignored. Default: a new name.")
    ] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Report reads of a site's change."""
    with daemon_at(url, token, timeout) as daemon:
        of_site = {"site_id": int(site)} if site.isdecimal() else {"url": site}
        read = {**of_site, "at": at or datetime.now(UTC).isoformat(), "count": count, "change_id": change}
        body = {"report": name or uuid.uuid4().hex, "reads": [read]}
        show_one(daemon.call("POST", "/reads", body), as_json=as_json)


@app.command()
def site(
    site: _Site, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Show the reads of a site's changes, and the half-life that was learned from them."""
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("GET", f"/sites/{id_of(daemon, site)}/reads"), as_json=as_json)


@app.command()
def forget(
    site: _Site, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Forget the reads of a site's changes, and their half-life."""
    with daemon_at(url, token, timeout) as daemon:
        site_id = id_of(daemon, site)
        daemon.call("DELETE", f"/sites/{site_id}/reads")
    show_done(_("forgot the reads of {site_id}", site_id=site_id), {"id": site_id}, as_json=as_json)
