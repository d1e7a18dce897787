"""Groups of commands of which each is loaded when it is called, and costs nobody else anything."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from pollerd.cli.common.loading import loading

Commands = Mapping[str, tuple[str, str]]
"""Name -> (module below pollerd.cli and what of it, one line of help)."""


def group_of(commands: Commands, *, name: str | None = None, help_: str) -> typer.Typer:
    """A group that lists the commands by their lines of help, and loads the one that is called."""

    class Group(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            """The command that `args` begin with, and the rest of them."""
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
    """Stands for a command in the list, until the real one is called."""


def _alone() -> None:
    """A group is one even where it has a single command."""
