"""`pollerd tags`: what the sites of a tag inherit."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from pollerd.cli.client.client import TIMEOUT_SECONDS
from pollerd.cli.client.connection import REFUSED, daemon_at
from pollerd.cli.common.options import (
    DURATION,
    NONE,
    TRUST,
    WINDOWS,
    Json,
    Rebase,
    Timeout,
    Token,
    Url,
    duration,
    trust,
)
from pollerd.cli.common.options import windows as parse_windows
from pollerd.cli.common.output import show_done, show_list, show_one
from pollerd.cli.sites.selecting import SELECT_HELP, selections

app = typer.Typer(help="What the sites of a tag inherit.", no_args_is_help=True)
_COLUMNS = ("name", "weight", "cost", "min_interval", "max_interval", "min_yield", "half_life", "deadline", "windows")
TagArgument = Annotated[str, typer.Argument(metavar="TAG", help="The tag.")]


def _or_none(text: str | float) -> str | float:
    return NONE if text == NONE else duration(text)


def _interval(help_: str) -> Any:
    return typer.Option(help=help_, parser=_or_none, metavar=f"{DURATION}|{NONE}")


@app.command("list")
def list_(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """Lists the tags that have settings."""
    with daemon_at(url, token, timeout) as daemon:
        found = daemon.call("GET", "/tags")["items"]
    show_list(_COLUMNS, found, as_json=as_json)


@app.command()
def show(
    tag: TagArgument, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Shows the settings of a tag. Of headers and credentials only that there are some."""
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("GET", _path(tag)), as_json=as_json)


@app.command("set")
def set_(
    tag: TagArgument,
    weight: Annotated[str | None, typer.Option(help="What one change is worth; none: unsaid.")] = None,
    cost: Annotated[str | None, typer.Option(help="What one poll costs of the budget; none: unsaid.")] = None,
    min_interval: Annotated[Any, _interval("Shortest time between two polls of a site.")] = None,
    max_interval: Annotated[Any, _interval("Longest time between two polls of a site.")] = None,
    min_yield: Annotated[str | None, typer.Option(help="No poll while a change is less likely, as 1%.")] = None,
    respect_ttl: Annotated[
        Any,
        typer.Option(
            help="How far its max-age, Expires or ttl is believed. none: unsaid.",
            parser=trust,
            metavar=f"{TRUST}|{NONE}",
        ),
    ] = None,
    half_life: Annotated[Any, _interval("For objective interest: when a change is worth half.")] = None,
    deadline: Annotated[Any, _interval("For objective deadline: in which a change should be found.")] = None,
    windows: Annotated[Any, typer.Option(help=f"{WINDOWS} none: unsaid.", parser=parse_windows, metavar="JSON")] = None,
    select: Annotated[
        Any, typer.Option(help=f"{SELECT_HELP} none: unsaid.", parser=selections, metavar="SELECTION")
    ] = None,
    rebase: Rebase = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Gives a tag settings. Settings that are not named stay, also those that only the API or a list can set."""
    given = {
        "weight": _number("weight", weight),
        "cost": _number("cost", cost),
        "min_interval": min_interval,
        "max_interval": max_interval,
        "min_yield": min_yield,
        "respect_ttl": respect_ttl,
        "half_life": half_life,
        "deadline": deadline,
        "windows": windows,
        "selections": select,
        "rebase": rebase,
    }
    changes = {name: None if value == NONE else value for name, value in given.items() if value is not None}
    if not changes:
        _refuse("nothing to change: give a setting, as --min-interval 15m")
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("PATCH", _path(tag), changes), as_json=as_json)


@app.command()
def remove(
    tag: TagArgument, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Takes the settings of a tag away. Its sites keep the tag."""
    with daemon_at(url, token, timeout) as daemon:
        daemon.call("DELETE", _path(tag))
    show_done(f"removed the settings of {tag}", {"name": tag, "removed": True}, as_json=as_json)


def _number(name: str, text: str | None) -> str | float | None:
    if text is None or text == NONE:
        return text
    try:
        return float(text)
    except ValueError:
        _refuse(f"{name} must be a number, or none; given: {text!r}")
        return None


def _refuse(reason: str) -> None:
    typer.echo(f"pollerd: {reason}", err=True)
    raise typer.Exit(REFUSED)


def _path(tag: str) -> str:
    return f"/tags/{quote(tag, safe='')}"
