"""`pollerd channels`: the channels on which a running daemon sends messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd.cli.client import REFUSED, TIMEOUT_SECONDS, WRONG, ApiClient, daemon_at
from pollerd.cli.options import DURATION, Json, Timeout, Token, Url, duration, grouped, table_in, words_of
from pollerd.cli.output import (
    CallError,
    UnansweredError,
    ask_secret,
    show_done,
    show_fields,
    show_json,
    show_list,
    show_one,
)
from pollerd.errors import file_fault
from pollerd.texts import N_, _

# Options of `add` and `edit`: settings by name, and secrets from files or a prompt.
#
# A secret is never an argument: arguments are listed with the processes and kept in the shell's history.

SECRET_HELP = (
    "Setting that is secret, for example password or headers.authorization; you are prompted for it (repeatable)."
)
ChannelFile = Annotated[
    Path | None,
    typer.Option("--file", help="Settings as JSON, .toml or .yaml; - is standard input. Options win."),
]
_KINDS = "webhook|email|nats|apprise"
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting, as url=https://… or delivery.per_minute=10; given again, a list; null takes it away.",
    ),
]
SecretFiles = Annotated[
    list[str] | None,
    typer.Option("--secret-file", metavar="NAME=PATH", help="A secret from a file, as password=mail.pw."),
]
Secrets = Annotated[list[str] | None, typer.Option("--secret", metavar="NAME", help=SECRET_HELP)]

_SECRET = frozenset({"password", "token", "seed", "credentials", "secret", "previous_secret", "query", "headers"})
_LISTS = frozenset({"recipients"})
_APPRISE = "apprise"
_LONGEST_SECRET = 64 * 1024


@dataclass(frozen=True)
class ChannelOptions:
    """The options as given; None: left out."""

    file: ChannelFile = None
    setting: Settings = None
    secret_file: SecretFiles = None
    secret: Secrets = None

    def any(self) -> bool:
        """Whether one was given."""
        return any(vars(self).values())


def with_settings(before: Mapping[str, Any], kind: str, options: ChannelOptions) -> dict[str, Any]:
    """Returns a channel's settings with what the options say; what they leave out stays.

    Raises typer.BadParameter.
    """
    settings = json.loads(json.dumps(before))
    again: set[str] = set()
    for text in options.setting or ():
        name, value = _parted(text, "--set")
        _refuse_secret(name, value, kind)
        _put(settings, name, _value(value), listed=name in _LISTS, more=name in again)
        again.add(name)
    for text in options.secret_file or ():
        name, file = _parted(text, "--secret-file")
        _put(settings, name, _read(Path(file)))
    for name in options.secret or ():
        _put(settings, name, _prompted(name))
    return {name: value for name, value in settings.items() if value is not None}


def _parted(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(_("{option} must be a name, = and a value; given: {name!r}", option=option, name=name))
    return name, value


def _refuse_secret(name: str, value: str, kind: str) -> None:
    """Refuses what others could read in the list of processes."""
    if name.partition(".")[0] in _SECRET or (name == "url" and (kind == _APPRISE or "?" in value)):
        what = _("a URL with a query") if name == "url" and kind != _APPRISE else name
        raise typer.BadParameter(
            _(
                "{what} may be secret, and other users can see arguments: use --secret-file {name}=PATH or "
                "--secret {name}",
                what=what,
                name=name,
            )
        )


def _value(text: str) -> Any:
    """Returns a number, boolean, null, list or object of its JSON; any other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _put(settings: dict[str, Any], name: str, value: Any, *, listed: bool = False, more: bool = False) -> None:
    """Sets a field; a dot leads into a table. listed: a list even of one; more: beside what was set before."""
    first, dot, rest = name.partition(".")
    if dot:
        inner = settings.get(first)
        settings[first] = dict(inner) if isinstance(inner, dict) else {}
        _put(settings[first], rest, value, listed=listed, more=more)
        return
    if more:
        before = settings[name] if isinstance(settings[name], list) else [settings[name]]
        settings[name] = [*before, value]
    else:
        settings[name] = [value] if listed and not isinstance(value, list) else value


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(_LONGEST_SECRET + 1)
        text = data.decode().strip()
    except OSError as error:
        raise typer.BadParameter(file_fault(file, error)) from error
    except ValueError as error:
        raise typer.BadParameter(_("{file} is not UTF-8", file=file)) from error
    if len(data) > _LONGEST_SECRET:
        raise typer.BadParameter(
            _("{file} holds more than {longest_secret} bytes", file=file, longest_secret=_LONGEST_SECRET)
        )
    return text


def _prompted(name: str) -> str:
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            _("{name} is asked for on a terminal: name a file with --secret-file {name}=PATH", name=name)
        )
    return ask_secret(name)


# Rules and channels named on the command line by id or name.

RuleName = Annotated[str, typer.Argument(metavar="RULE", help="Id or name.")]
ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="Id or name.")]


def rule_named(daemon: ApiClient, rule: str) -> dict[str, Any]:
    """Returns the rule of that name, or else id. Raises `CallError` if it does not exist."""
    return _named(daemon, "/rules", N_("rule"), rule)


def channel_named(daemon: ApiClient, channel: str) -> dict[str, Any]:
    """Returns the channel of that name, or else id. Raises `CallError` if it does not exist."""
    return _named(daemon, "/channels", N_("channel"), channel)


def refuse(reason: str) -> None:
    """Ends the command with one line: it cannot be executed as given."""
    typer.echo(f"pollerd: {reason}", err=True)
    raise typer.Exit(REFUSED)


def _named(daemon: ApiClient, path: str, what: str, name: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = daemon.call("GET", path)["items"]
    for item in items:
        if item["name"] == name:
            return item
    for item in items:
        if str(item["id"]) == name:
            return item
    raise CallError(_("no such {what}: {name}", what=_(what), name=name))


app = typer.Typer(no_args_is_help=True)

_COLUMNS = ("id", "name", "kind", "state", "waiting", "dead", "last_sent_at", "last_error", "origin")
_TEST_SECONDS = 40.0
"""Longest a test takes: an attempt ends within 20 s, a child process of Apprise is killed a little later."""
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Whether anything is sent on it.")]


def _sent(daemon: ApiClient, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Returns the channel. Raises CallError, which names a setting as it is typed."""
    try:
        channel: dict[str, Any] = daemon.call(method, path, body)
    except UnansweredError:
        raise
    except CallError as error:
        name, colon, reason = str(error).partition(": ")
        if not colon or not name.isidentifier() or name in {"name", "kind", "enabled", "settings", *_SECRET}:
            raise
        raise CallError(_("--set {name}=…: {reason}", name=name, reason=reason)) from error
    return channel


@app.command("list")
def list_(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """List channels: kind, state, queued and failed messages."""
    with daemon_at(url, token, timeout) as daemon:
        channels = daemon.call("GET", "/channels")["items"]
    show_list(
        _COLUMNS,
        channels,
        as_json=as_json,
        row=lambda channel: {**channel, **channel["queue"], "state": _state(channel)},
    )


@app.command()
def show(
    channel: ChannelName,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Show a channel, without its secrets."""
    with daemon_at(url, token, timeout) as daemon:
        _show(channel_named(daemon, channel), as_json)


@app.command()
@grouped
def add(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name; it can be in the file instead.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="How messages are sent.", metavar=_KINDS, autocompletion=words_of(_KINDS))
    ] = None,
    *,
    options: ChannelOptions,
    enabled: Enabled = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Add a channel. A webhook without a secret gets one, which is shown only once.

    Example: pollerd channels add hook --kind webhook --set url=https://example.org/hook
    """
    table = table_in(options.file)
    name, kind = name or table.pop("name", None), kind or table.pop("kind", None)
    table = {key: value for key, value in table.items() if key not in ("name", "kind")}
    is_enabled = table.pop("enabled", True) if enabled is None else enabled
    table.pop("enabled", None)
    if name is None or kind is None:
        refuse(_("a channel needs a name and a kind: pollerd channels add NAME --kind webhook --set url=https://…"))
    settings = with_settings(table, str(kind), options)
    body = {"name": name, "kind": kind, "enabled": is_enabled, "settings": settings}
    with daemon_at(url, token, timeout) as daemon:
        _show(_sent(daemon, "POST", "/channels", body), as_json)


@app.command()
@grouped
def edit(
    channel: ChannelName,
    new_name: Annotated[str | None, typer.Option(help="Renames it, in rules, too.")] = None,
    *,
    options: ChannelOptions,
    enabled: Enabled = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Change a channel, and end its pause. A file replaces all settings. Secrets that it does not name stay, if the
    address does.

    New `headers` replace all headers.
    """
    patch: dict[str, Any] = {
        name: value for name, value in (("name", new_name), ("enabled", enabled)) if value is not None
    }
    if not patch and not options.any():
        refuse(_("nothing to change: give a setting, as --set url=https://…"))
    with daemon_at(url, token, timeout) as daemon:
        stored = channel_named(daemon, channel)
        if options.any():
            before = _settings(stored) if options.file is None else _only_settings(table_in(options.file))
            patch["settings"] = with_settings(before, stored["kind"], options)
        _show(_sent(daemon, "PATCH", f"/channels/{stored['id']}", patch), as_json)


@app.command()
def remove(
    channel: ChannelName,
    from_rules: Annotated[bool, typer.Option("--from-rules", help="Remove it from rules, too.")] = False,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Remove a channel. Its queued messages fail. Refused while rules name it, unless --from-rules."""
    with daemon_at(url, token, timeout) as daemon:
        stored = channel_named(daemon, channel)
        daemon.call("DELETE", f"/channels/{stored['id']}{'?from_rules=true' if from_rules else ''}")
    gone = {"id": stored["id"], "name": stored["name"], "removed": True}
    show_done(_("removed the channel {name}", name=stored["name"]), gone, as_json=as_json)


@app.command("test")
def try_(
    channel: ChannelName,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Send a test message at once, and show the result. Exit code 1 if it was not sent."""
    with daemon_at(url, token, max(timeout, _TEST_SECONDS)) as daemon:
        result = daemon.call("POST", f"/channels/{channel_named(daemon, channel)['id']}/test")
    show_one(result, as_json=as_json)
    raise typer.Exit(0 if result["outcome"] == "sent" else WRONG)


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
    """Give a webhook a new secret, which is shown only once."""
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
    """Queue all failed messages of a channel again."""
    with daemon_at(url, token, timeout) as daemon:
        result = daemon.call("POST", f"/channels/{channel_named(daemon, channel)['id']}/resend")
    show_done(_("{resent} queued again", resent=result["resent"]), result, as_json=as_json)


def _only_settings(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in ("name", "kind", "enabled")}


def _settings(channel: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings as shown, as the daemon takes them again."""
    return {name: value for name, value in channel["settings"].items() if name not in ("secrets", "fault")}


def _state(channel: dict[str, Any]) -> str:
    if not channel["enabled"]:
        return "disabled"
    state = "paused" if channel["paused_at"] is not None else "active"
    return _("{state}, not fenced", state=state) if channel.get("not_fenced") else state


def _show(channel: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(channel)
        return
    settings, queue = channel["settings"], channel["queue"]
    fields = {name: value for name, value in channel.items() if name not in ("settings", "queue", "secret")}
    delivery = {f"delivery.{name}": value for name, value in settings.pop("delivery", {}).items()}
    secret = {} if channel["secret"] is None else {"secret": channel["secret"]}
    show_fields({**fields, **settings, **delivery, **queue, **secret})
