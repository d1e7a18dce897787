"""The help of every command shows all of its text: Rich takes words in square brackets for markup, and drops them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from pollerd.cli.commands import app


def commands_of(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the command and all below it, loaded as when they are called, with the words that call them."""
    yield path, command
    context = command.context_class(command)
    for name in getattr(command, "commands", ()):
        _, found, _ = command.resolve_command(context, [name])
        yield from commands_of(found, (*path, name))


COMMANDS = dict(commands_of(typer.main.get_command(app)))


def test_all_commands_are_looked_at() -> None:
    assert len(COMMANDS) > 60
    assert {("run",), ("sites", "edit"), ("channels", "add"), ("db", "upgrade")} <= COMMANDS.keys()


@pytest.mark.parametrize("path", sorted(COMMANDS), ids=" ".join)
def test_nothing_of_the_help_is_taken_for_markup(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    texts = [command.help, command.short_help, command.epilog]
    texts += [text for option in command.params for text in (getattr(option, "help", None), option.metavar)]
    assert [text for text in texts if text and Text.from_markup(text).plain != text] == []


def test_run_shows_defaults() -> None:
    table = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}).stdout
    shown = " ".join(table.replace("│", " ").split())  # as read over the ends of lines
    for default in ("5", "whittle", "changes", "30m", "1s", "30s", "20s", "0%", "1d", "hint", "127.0.0.1:8080"):
        assert f"Default: {default}." in shown
