"""`pollerd deliveries`: the delivery log of a running daemon."""

from __future__ import annotations

import json
from itertools import chain
from typing import Annotated, Any

import typer

from pollerd.cli.channels import channel_named
from pollerd.cli.client import TIMEOUT_SECONDS, ApiClient, daemon_at, grown
from pollerd.cli.options import Json, Timeout, Token, Url
from pollerd.cli.output import clean, show_json, show_list
from pollerd.cli.sites import id_of
from pollerd.texts import _

app = typer.Typer()

_COLUMNS = ("id", "at", "kind", "site_id", "change_id", "rule_id", "channel_id", "state", "attempts", "detail")
_ATTEMPT_COLUMNS = ("id", "at", "channel_id", "events", "outcome", "status", "duration", "message_id", "detail")
_ATTEMPTS = "/deliveries/attempts"
_MAX_IDS = 1_000
OfChannel = Annotated[str | None, typer.Option(help="Only on this channel: id or name.")]
OfMessage = Annotated[str | None, typer.Option(help="Only of this message.")]
Most = Annotated[int, typer.Option(help="Maximum number; the newest are shown.", min=0)]


@app.callback(invoke_without_command=True)
def deliveries(
    context: typer.Context,
    channel: OfChannel = None,
    state: Annotated[str | None, typer.Option(help="Only waiting, sending, sent or dead ones.")] = None,
    change: Annotated[int | None, typer.Option(help="Only of this change.")] = None,
    site: Annotated[str | None, typer.Option(help="Only of this site: id or URL.")] = None,
    message: OfMessage = None,
    limit: Most = 20,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """List each event for each channel, newest first: sent, queued, or failed (dead)."""
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
        show_list(_COLUMNS, daemon.pages("/deliveries", query, limit), as_json=as_json)


@app.command()
def attempts(
    channel: OfChannel = None,
    message: OfMessage = None,
    limit: Most = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then show each as it is made, until Ctrl-C.")] = False,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """List attempts to send, newest first, with the answers of receivers. With --follow oldest first, then new ones.

    With --json one document; with --follow --json one on each line.
    """
    with daemon_at(url, token, timeout) as daemon:
        query = {"channel": _channel(daemon, channel), "message": message}
        newest = daemon.pages(_ATTEMPTS, {**query, "order": "newest"}, max(limit, 1) if follow else limit)
        if not follow:
            show_list(_ATTEMPT_COLUMNS, newest, as_json=as_json)
            return
        known = list(newest)[::-1]
        if not as_json:
            typer.echo("\t".join(_ATTEMPT_COLUMNS))
        last = known[-1]["id"] if known else 0
        for attempt in chain(known[:limit], grown(daemon, _ATTEMPTS, query, last)):
            typer.echo(_line(attempt, as_json))


def _line(attempt: dict[str, Any], as_json: bool) -> str:
    if as_json:
        return json.dumps(attempt)
    return "\t".join(clean(str(attempt[name])) for name in _ATTEMPT_COLUMNS)


@app.command()
def resend(
    ids: Annotated[
        list[int], typer.Argument(metavar="ID...", help="Ids of messages: see `pollerd deliveries --state dead`.")
    ],
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Queue failed messages again."""
    with daemon_at(url, token, timeout) as daemon:
        count = sum(
            daemon.call("POST", "/deliveries/resend", {"ids": ids[first : first + _MAX_IDS]})["resent"]
            for first in range(0, len(ids), _MAX_IDS)
        )
    if as_json:
        show_json({"resent": count})
    else:
        typer.echo(_("{count} queued again", count=count))


def _channel(daemon: ApiClient, channel: str | None) -> str | None:
    return None if channel is None else str(channel_named(daemon, channel)["id"])
