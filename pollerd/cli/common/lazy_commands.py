"""Groups of commands, each of which is loaded only when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from pollerd.cli.common.loading import loading

Commands = Mapping[str, tuple[str, str]]
"""Name -> (module below pollerd.cli and attribute, one line of help)."""


def group_of(commands: Commands, *, name: str | None = None, help_: str) -> typer.Typer:
    """Returns a group that lists the commands by their help lines, and loads the one that is called."""

    class Group(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            """Returns the command that `args` begin with, and the remaining arguments."""
            called, _, rest = super().resolve_command(ctx, args)
            return called, None if called is None else _loaded(called, commands[called][0]), rest

    group = typer.Typer(
        cls=Group, name=name, help=help_, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    for command, (_, line) in commands.items():
        group.command(name=command, help=line)(_listed)
    group.callback()(_alone)
    return group


def _loaded(name: str, where: str) -> Any:
    module, attribute = where.split(":")
    with loading():
        found = getattr(import_module(f"pollerd.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name=name)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    return command


def _listed() -> None:
    """Placeholder of a command in the list, until the real one is loaded."""


def _alone() -> None:
    """Callback that makes a group of a single command remain a group."""
