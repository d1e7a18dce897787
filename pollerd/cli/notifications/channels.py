"""`pollerd channels`: where a running daemon tells what it found."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pollerd.cli.client.client import TIMEOUT_SECONDS
from pollerd.cli.client.connection import WRONG, daemon_at
from pollerd.cli.common.grouped import grouped
from pollerd.cli.common.options import DURATION, Json, Timeout, Token, Url, duration
from pollerd.cli.common.output import show_done, show_fields, show_json, show_list, show_one
from pollerd.cli.common.settings_file import table_in
from pollerd.cli.notifications.channel_options import ChannelOptions, with_settings
from pollerd.cli.notifications.named import ChannelName, channel_named, refuse

app = typer.Typer(help="Where it is told.", no_args_is_help=True)

_COLUMNS = ("id", "name", "kind", "state", "waiting", "dead", "last_sent_at", "last_error", "origin")
_TEST_SECONDS = 40.0
"""Longest a test takes: an attempt ends within 20 s, a child process of Apprise is killed a little later."""
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Whether anything is sent on it.")]


@app.command("list")
def list_(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """Lists channels: kind, state, what waits, what could not be told."""
    with daemon_at(url, token, timeout) as daemon:
        found = daemon.call("GET", "/channels")["items"]
    show_list(_COLUMNS, found, as_json=as_json, row=lambda one: {**one, **one["queue"], "state": _state(one)})


@app.command()
def show(
    channel: ChannelName,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Shows all of one channel, but for its secrets."""
    with daemon_at(url, token, timeout) as daemon:
        _show(channel_named(daemon, channel), as_json)


@app.command()
@grouped
def add(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="May stand in the file instead.")] = None,
    kind: Annotated[str | None, typer.Option(help="webhook, email, nats or apprise.")] = None,
    *,
    given: ChannelOptions,
    enabled: Enabled = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Adds a channel. A webhook without a secret gets one, which is shown this once."""
    there = table_in(given.file)
    name, kind = name or there.pop("name", None), kind or there.pop("kind", None)
    there = {key: value for key, value in there.items() if key not in ("name", "kind")}
    is_enabled = there.pop("enabled", True) if enabled is None else enabled
    there.pop("enabled", None)
    if name is None or kind is None:
        refuse("a channel needs a name and a kind: pollerd channels add NAME --kind webhook --set url=https://…")
    settings = with_settings(there, str(kind), given)
    body = {"name": name, "kind": kind, "enabled": is_enabled, "settings": settings}
    with daemon_at(url, token, timeout) as daemon:
        _show(daemon.call("POST", "/channels", body), as_json)


@app.command()
@grouped
def edit(
    channel: ChannelName,
    new_name: Annotated[str | None, typer.Option(help="Renames it, in rules, too.")] = None,
    *,
    given: ChannelOptions,
    enabled: Enabled = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Changes a channel, and ends its pause. A file replaces all settings; secrets left out stay, if the address does.

    `headers` given anew are all its headers.
    """
    patch: dict[str, Any] = {
        name: value for name, value in (("name", new_name), ("enabled", enabled)) if value is not None
    }
    if not patch and not given.any():
        refuse("nothing to change: give a setting, as --set url=https://…")
    with daemon_at(url, token, timeout) as daemon:
        there = channel_named(daemon, channel)
        if given.any():
            before = _settings(there) if given.file is None else _only_settings(table_in(given.file))
            patch["settings"] = with_settings(before, there["kind"], given)
        _show(daemon.call("PATCH", f"/channels/{there['id']}", patch), as_json)


@app.command()
def remove(
    channel: ChannelName,
    from_rules: Annotated[bool, typer.Option("--from-rules", help="Also where rules name it.")] = False,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Removes a channel. What it had still to tell is dead; refused while rules name it, unless --from-rules."""
    with daemon_at(url, token, timeout) as daemon:
        there = channel_named(daemon, channel)
        daemon.call("DELETE", f"/channels/{there['id']}{'?from_rules=true' if from_rules else ''}")
    gone = {"id": there["id"], "name": there["name"], "removed": True}
    show_done(f"removed the channel {there['name']}", gone, as_json=as_json)


@app.command("test")
def try_(
    channel: ChannelName,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Sends a test message at once, and says what came of it. Exit code 1 if it was not sent."""
    with daemon_at(url, token, max(timeout, _TEST_SECONDS)) as daemon:
        found = daemon.call("POST", f"/channels/{channel_named(daemon, channel)['id']}/test")
    show_one(found, as_json=as_json)
    raise typer.Exit(0 if found["outcome"] == "sent" else WRONG)


@app.command()
def rotate(
    channel: ChannelName,
    overlap: Annotated[
        Any, typer.Option(help="How long the previous secret signs, too.", parser=duration, metavar=DURATION)
    ] = "1d",
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Gives a webhook a new secret, which is shown this once."""
    with daemon_at(url, token, timeout) as daemon:
        channel_id = channel_named(daemon, channel)["id"]
        _show(daemon.call("POST", f"/channels/{channel_id}/rotate", {"overlap": duration(overlap)}), as_json)


@app.command()
def resend(
    channel: ChannelName,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Has all that could not be told on a channel wait anew."""
    with daemon_at(url, token, timeout) as daemon:
        found = daemon.call("POST", f"/channels/{channel_named(daemon, channel)['id']}/resend")
    show_done(f"{found['resent']} wait anew", found, as_json=as_json)


def _only_settings(there: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in there.items() if key not in ("name", "kind", "enabled")}


def _settings(there: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings as shown, as the daemon takes them again."""
    return {name: value for name, value in there["settings"].items() if name not in ("secrets", "fault")}


def _state(one: dict[str, Any]) -> str:
    if not one["enabled"]:
        return "disabled"
    state = "paused" if one["paused_at"] is not None else "active"
    return f"{state}, not fenced" if one.get("not_fenced") else state


def _show(one: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(one)
        return
    settings, queue = one["settings"], one["queue"]
    fields = {name: value for name, value in one.items() if name not in ("settings", "queue", "secret")}
    delivery = {f"delivery.{name}": value for name, value in settings.pop("delivery", {}).items()}
    secret = {} if one["secret"] is None else {"secret": one["secret"]}
    show_fields({**fields, **settings, **delivery, **queue, **secret})
