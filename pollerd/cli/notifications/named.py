"""Rules and channels named on the command line by id or name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pollerd.cli.client.client import ApiClient
from pollerd.cli.client.connection import REFUSED
from pollerd.cli.common.call_errors import CallError

RuleName = Annotated[str, typer.Argument(metavar="RULE", help="Id or name.")]
ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="Id or name.")]


def rule_named(daemon: ApiClient, rule: str) -> dict[str, Any]:
    """Returns the rule of that name, or else id. Raises `CallError` if it does not exist."""
    return _named(daemon, "/rules", "rule", rule)


def channel_named(daemon: ApiClient, channel: str) -> dict[str, Any]:
    """Returns the channel of that name, or else id. Raises `CallError` if it does not exist."""
    return _named(daemon, "/channels", "channel", channel)


def refuse(reason: str) -> None:
    """Ends the command with one line: it cannot be executed as given."""
    typer.echo(f"pollerd: {reason}", err=True)
    raise typer.Exit(REFUSED)


def _named(daemon: ApiClient, path: str, what: str, name: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = daemon.call("GET", path)["items"]
    for one in items:
        if one["name"] == name:
            return one
    for one in items:
        if str(one["id"]) == name:
            return one
    raise CallError(f"no such {what}: {name}")
