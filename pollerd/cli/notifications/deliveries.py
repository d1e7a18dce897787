"""`pollerd deliveries`: what a running daemon told whom, and when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from pollerd.cli.client.client import TIMEOUT_SECONDS, ApiClient
from pollerd.cli.client.connection import daemon_at
from pollerd.cli.common.options import Json, Timeout, Token, Url
from pollerd.cli.common.output import show_items, show_json
from pollerd.cli.notifications.named import channel_named
from pollerd.cli.sites.named import id_of

app = typer.Typer(help="What was told to whom, and when.")

_COLUMNS = ("id", "at", "kind", "site_id", "change_id", "rule_id", "channel_id", "state", "attempts", "detail")
_ATTEMPT_COLUMNS = ("id", "at", "channel_id", "events", "outcome", "status", "duration", "message_id", "detail")
_MOST_IDS = 1_000
OfChannel = Annotated[str | None, typer.Option(help="Only on this channel: id or name.")]
OfMessage = Annotated[str | None, typer.Option(help="Only of this message.")]
Most = Annotated[int, typer.Option(help="At most so many, the newest.", min=0)]


@app.callback(invoke_without_command=True)
def deliveries(
    context: typer.Context,
    channel: OfChannel = None,
    state: Annotated[str | None, typer.Option(help="Only waiting, sending, sent or dead ones.")] = None,
    change: Annotated[int | None, typer.Option(help="Only of this change: who was told of it.")] = None,
    site: Annotated[str | None, typer.Option(help="Only of this site: id or URL.")] = None,
    message: OfMessage = None,
    limit: Most = 20,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Lists each event for each channel, newest first: told, waiting, or dead."""
    if context.invoked_subcommand is not None:
        return
    with daemon_at(url, token, timeout) as daemon:
        query = {
            "channel": _channel(daemon, channel),
            "state": state,
            "change": None if change is None else str(change),
            "site": None if site is None else str(id_of(daemon, site)),
            "message": message,
            "order": "newest",
        }
        _show(_COLUMNS, daemon.pages("/deliveries", query, limit), as_json)


@app.command()
def attempts(
    channel: OfChannel = None,
    message: OfMessage = None,
    limit: Most = 20,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Lists attempts to send, newest first, with what receivers answered."""
    with daemon_at(url, token, timeout) as daemon:
        query = {"channel": _channel(daemon, channel), "message": message, "order": "newest"}
        _show(_ATTEMPT_COLUMNS, daemon.pages("/deliveries/attempts", query, limit), as_json)


@app.command()
def resend(
    ids: Annotated[list[int], typer.Argument(metavar="ID...", help="As `pollerd deliveries --state dead` lists.")],
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Has those of these that are dead wait anew."""
    with daemon_at(url, token, timeout) as daemon:
        count = sum(
            daemon.call("POST", "/deliveries/resend", {"ids": ids[first : first + _MOST_IDS]})["resent"]
            for first in range(0, len(ids), _MOST_IDS)
        )
    if as_json:
        show_json({"resent": count})
    else:
        typer.echo(f"{count} wait anew")


def _channel(daemon: ApiClient, channel: str | None) -> str | None:
    return None if channel is None else str(channel_named(daemon, channel)["id"])


def _show(columns: Iterable[str], items: Iterable[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        show_json(items)
    else:
        show_items(columns, items)
