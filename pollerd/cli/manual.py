"""`pollerd man`: the manual page, from the help of all commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from pollerd import __version__
from pollerd.texts import _

_OF_CLIENTS = ("url", "token", "timeout", "as_json")
"""Options of nearly all commands: the page has them once."""


def man(context: typer.Context) -> None:
    """Print the manual page, in troff.

    Example: pollerd man > pollerd.1
    """
    root = context.find_root().command
    typer.echo("\n".join(_page(list(_below(root, "pollerd")))))


def _below(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the command and all below it, each with the words that call it."""
    yield path, command
    context = command.context_class(command)
    for name in getattr(command, "commands", ()):
        yield from _below(command.resolve_command(context, [name])[1], f"{path} {name}")


def _page(commands: list[tuple[str, Any]]) -> Iterator[str]:
    root = commands[0][1]
    yield f'.TH POLLERD 1 "" "pollerd {__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"pollerd \\- {_escaped(root.help)}"
    yield ".SH SYNOPSIS"
    yield ".B pollerd\nCOMMAND [OPTIONS] [ARGUMENTS]"
    yield ".SH OPTIONS"
    yield from _options(
        [*root.params, *(parameter for parameter in _shared(commands) if parameter.name in _OF_CLIENTS)]
    )
    yield ".SH COMMANDS"
    for path, command in commands[1:]:
        arguments = " ".join(
            parameter.metavar or parameter.name.upper()
            for parameter in command.params
            if not parameter.opts[0].startswith("-")
        )
        yield f".SS {_escaped(f'{path} {arguments}'.strip())}"
        yield from _paragraphs(command.help)
        yield from _options([parameter for parameter in command.params if parameter.name not in _OF_CLIENTS])
    yield ".SH EXIT STATUS"
    succeeded, ended = _("The command succeeded."), _("Ended by Ctrl-C.")
    yield f".TP\n.B 0\n{_escaped(succeeded)}"
    trouble = _(
        "The daemon does not answer or is not ready, a check found a problem,\nor lines of a list were rejected."
    )
    yield f".TP\n.B 1\n{_escaped(trouble)}"
    refused = _("The command, an option or a setting is invalid, or the daemon refused the call.")
    yield f".TP\n.B 2\n{_escaped(refused)}"
    yield f".TP\n.B 130\n{_escaped(ended)}"
    yield ".SH ENVIRONMENT"
    yield from _paragraphs(
        _("Each option of `pollerd run` is also a variable: --min-interval is POLLERD_MIN_INTERVAL.")
    )


def _shared(commands: list[tuple[str, Any]]) -> list[Any]:
    """Returns the options of the first command that has those of clients."""
    return next(
        (
            command.params
            for _name, command in commands
            if {*_OF_CLIENTS} <= {parameter.name for parameter in command.params}
        ),
        [],
    )


def _options(params: list[Any]) -> Iterator[str]:
    for parameter in params:
        if parameter.opts[0].startswith("-"):
            spelled = ", ".join([*parameter.opts, *parameter.secondary_opts])
            value = (
                "" if getattr(parameter, "is_flag", False) else f" {parameter.metavar or parameter.type.name.upper()}"
            )
            yield f".TP\n.B {_escaped(spelled + value)}"
            yield _escaped(" ".join((parameter.help or "").split()) + _default(parameter)) or "\\&"


def _default(option: Any) -> str:
    """Returns the default as help shows it."""
    if isinstance(option.show_default, str):
        return f" Default: {option.show_default}."
    shown = option.show_default and option.default not in (None, False, (), []) and not callable(option.default)
    return f" Default: {option.default}." if shown else ""


def _paragraphs(text: str | None) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text or ""):
        yield f".PP\n{_escaped(' '.join(paragraph.split()))}"


def _escaped(text: str) -> str:
    """Returns text for troff, in which a backslash, a hyphen and a dot or quote that begins a line mean something."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
