"""`pollerd tags`: settings of tags, which their sites inherit."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from pollerd.cli.client import REFUSED, TIMEOUT_SECONDS, daemon_at
from pollerd.cli.options import Json, Rebase, Timeout, Token, Url
from pollerd.cli.output import show_done, show_list, show_one
from pollerd.cli.setting_options import OF_TAGS, Settings, with_settings
from pollerd.site_settings import NUMERIC_SETTINGS
from pollerd.texts import _

app = typer.Typer(no_args_is_help=True)
_COLUMNS = ("name", *NUMERIC_SETTINGS, "windows")
TagArgument = Annotated[str, typer.Argument(metavar="TAG", help="The tag.")]


@app.command("list")
def list_(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """List the tags that have settings."""
    with daemon_at(url, token, timeout) as daemon:
        tags = daemon.call("GET", "/tags")["items"]
    show_list(_COLUMNS, tags, as_json=as_json)


@app.command()
def show(
    tag: TagArgument, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Show the settings of a tag. Headers and credentials are not shown."""
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("GET", _path(tag)), as_json=as_json)


@app.command("set")
@with_settings(OF_TAGS, none="not set.")
def set_(
    tag: TagArgument,
    *,
    settings: Settings,
    rebase: Rebase = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Give settings to a tag. Settings that are not named stay.

    Example: pollerd tags set news --min-interval 10m
    """
    changes = settings if rebase is None else {**settings, "rebase": rebase}
    if not changes:
        _refuse(_("nothing to change: give a setting, as --min-interval 15m"))
    with daemon_at(url, token, timeout) as daemon:
        show_one(daemon.call("PATCH", _path(tag), changes), as_json=as_json)


@app.command()
def remove(
    tag: TagArgument, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Remove the settings of a tag. Its sites keep the tag."""
    with daemon_at(url, token, timeout) as daemon:
        daemon.call("DELETE", _path(tag))
    show_done(_("removed the settings of {tag}", tag=tag), {"name": tag, "removed": True}, as_json=as_json)


def _refuse(reason: str) -> None:
    typer.echo(f"pollerd: {reason}", err=True)
    raise typer.Exit(REFUSED)


def _path(tag: str) -> str:
    return f"/tags/{quote(tag, safe='')}"
