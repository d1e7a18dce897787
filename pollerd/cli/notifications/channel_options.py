"""The options of `pollerd channels add` and `edit`: settings by name, and secrets from files or a prompt.

A secret is never an argument: arguments are listed with the processes and kept in the shell's history.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

SECRET_HELP = "A secret that is asked for, as password or headers.authorization; may be given more than once."
ChannelFile = Annotated[
    Path | None,
    typer.Option("--file", help="Settings as JSON, .toml or .yaml; - is standard input. Options win."),
]
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
    found = json.loads(json.dumps(before))
    again: set[str] = set()
    for one in options.setting or ():
        name, value = _parted(one, "--set")
        _refuse_secret(name, value, kind)
        _put(found, name, _value(value), listed=name in _LISTS, more=name in again)
        again.add(name)
    for one in options.secret_file or ():
        name, file = _parted(one, "--secret-file")
        _put(found, name, _read(Path(file)))
    for name in options.secret or ():
        _put(found, name, _prompted(name))
    return {name: value for name, value in found.items() if value is not None}


def _parted(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"{option} must be a name, = and a value; given: {name!r}")
    return name, value


def _refuse_secret(name: str, value: str, kind: str) -> None:
    """Refuses what others could read in the list of processes."""
    if name.partition(".")[0] in _SECRET or (name == "url" and (kind == _APPRISE or "?" in value)):
        what = "a URL with a query" if name == "url" and kind != _APPRISE else name
        raise typer.BadParameter(
            f"{what} may be secret, and others see arguments: give it by --secret-file {name}=PATH or --secret {name}"
        )


def _value(text: str) -> Any:
    """Returns a number, boolean, null, list or object of its JSON; any other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _put(found: dict[str, Any], name: str, value: Any, *, listed: bool = False, more: bool = False) -> None:
    """Sets a field; a dot leads into a table. listed: a list even of one; more: beside what was set before."""
    first, dot, rest = name.partition(".")
    if dot:
        inner = found.get(first)
        found[first] = dict(inner) if isinstance(inner, dict) else {}
        _put(found[first], rest, value, listed=listed, more=more)
        return
    if more:
        before = found[name] if isinstance(found[name], list) else [found[name]]
        found[name] = [*before, value]
    else:
        found[name] = [value] if listed and not isinstance(value, list) else value


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(_LONGEST_SECRET + 1)
        text = data.decode().strip()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise typer.BadParameter(f"{file} is not UTF-8") from error
    if len(data) > _LONGEST_SECRET:
        raise typer.BadParameter(f"{file} holds more than {_LONGEST_SECRET} bytes")
    return text


def _prompted(name: str) -> str:
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{name} is asked for on a terminal: name a file with --secret-file {name}=PATH")
    return str(typer.prompt(name, hide_input=True, err=True))
