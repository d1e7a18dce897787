"""`pollerd changes` and `pollerd diff`: detected changes of a running daemon."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from pollerd import quantities
from pollerd.cli.client import TIMEOUT_SECONDS, ApiClient, daemon_at, followed
from pollerd.cli.options import Json, Timeout, Token, Url, time_in
from pollerd.cli.output import clean, clean_line, show_items, show_json
from pollerd.cli.sites import id_of
from pollerd.texts import _

_COLUMNS = ("id", "detected_at", "site_id", "url", "kind", "summary")


def _moment(text: str) -> str:
    """Converts a time for the API: `2h` is two hours ago. Raises typer.BadParameter."""
    try:
        return repr(datetime.now(UTC).timestamp() - quantities.seconds(text.removesuffix("ago")))
    except ValueError:
        return time_in(text, _("two hours ago"))


def changes(
    site: Annotated[str | None, typer.Option(help="Only of this site: id or URL.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only of sites with this tag.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only changes after 2h (two hours ago), or a time such as 2026-01-31T12:00:00Z.",
            parser=_moment,
            metavar="TIME",
        ),
    ] = None,
    matters: Annotated[
        bool, typer.Option("--matters", help="Only changes that matter by their selection's conditions.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Maximum number; the newest are shown.", min=0)] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then show each as it is found, until Ctrl-C.")] = (
        False
    ),
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """List the changes found, newest first. With --follow oldest first, and then new ones.

    With --json one document; with --follow --json one on each line.

    Example: pollerd changes --since 2h --tag news
    """
    with daemon_at(url, token, timeout) as daemon:
        query = {
            "since": since,
            "tag": tag,
            "site": None if site is None else str(id_of(daemon, site)),
            "matters": "true" if matters else "all",
        }
        newest = daemon.pages("/changes", {**query, "order": "newest"}, limit)
        if follow:
            known = list(newest)[::-1]
            _follow(daemon, query, known, 0 if limit else None, as_json)
        elif as_json:
            show_json(newest)
        else:
            show_items(_COLUMNS, newest)


def diff(
    change: Annotated[int, typer.Argument(metavar="CHANGE", help="The change's id, as `pollerd changes` lists.")],
    context: Annotated[int, typer.Option(help="Equal lines around each difference.", min=0)] = 3,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Show the difference of a change, line by line.

    Example: pollerd diff 12
    """
    with daemon_at(url, token, timeout) as daemon:
        path = f"/changes/{change}/diff?context={context}"
        media = "application/json" if as_json else "text/plain"
        body = b"".join(daemon.download(path, headers={"Accept": media}))
    if as_json:
        show_json(json.loads(body))
        return
    for line in body.decode("utf-8", "replace").removesuffix("\n").split("\n"):
        typer.secho(clean_line(line), fg=_colour(line))


def _colour(line: str) -> str | None:
    if line.startswith("@@"):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1])


def _follow(
    daemon: ApiClient, query: dict[str, str | None], known: list[dict[str, Any]], start: int | None, as_json: bool
) -> None:
    """Shows `known`, then later changes; without known ones those after the id `start` (None: from now on)."""
    if not as_json:
        typer.echo("\t".join(_COLUMNS))
    for change in known:
        typer.echo(_line(change, as_json))
    for change in followed(daemon, query, known[-1]["id"] if known else start):
        typer.echo(_line(change, as_json))


def _line(change: dict[str, Any], as_json: bool) -> str:
    return json.dumps(change) if as_json else "\t".join(clean(str(change[name])) for name in _COLUMNS)
