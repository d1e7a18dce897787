"""The help of every command: its text, defaults and examples; the completion and the manual page made from it.

Rich takes words in square brackets for markup, and drops them.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
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


def test_every_default_is_shown() -> None:
    hidden = [
        (" ".join(path), option.opts[-1])
        for path, command in COMMANDS.items()
        for option in command.params
        if option.default not in (None, False, (), []) and option.opts[0].startswith("-")
        if not getattr(option, "show_default", True) and "Default: " not in (option.help or "")
    ]
    assert hidden == []
    assert sum("Default: " in (option.help or "") for command in COMMANDS.values() for option in command.params) > 60


# Examples: in help, and in the documents.

ROOT = Path(__file__).parents[2]
IN_HELP = [
    " ".join(found.split())
    for command in COMMANDS.values()
    for found in re.findall(r"Example: (pollerd .*?)(?:\n\s*\n|\Z)", command.help or "", re.DOTALL)
]
IN_DOCUMENTS = sorted(
    {
        line.split("  #")[0].strip()
        for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
        for line in re.findall(r"^(?:    |\$ )(pollerd [a-z].*)$", page.read_text(), re.MULTILINE)
        if " | " not in line and not line.endswith("\\")
    }
)


def parsed(line: str) -> None:
    """Parses a command line as the command does before it runs. Raises UsageError."""
    words = shlex.split(line.split(" > ")[0])[1:]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        _, command, words = command.resolve_command(command.context_class(command), words)
    with command.make_context(command.name, list(words)):
        pass


def test_the_main_commands_have_examples() -> None:
    assert len(IN_HELP) > 25
    assert len(IN_DOCUMENTS) > 25


@pytest.mark.parametrize("line", [*IN_HELP, *IN_DOCUMENTS])
def test_an_example_is_a_command(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r"[\w-]+\.(?:txt|csv|jsonl|yaml|toml|zip)\b", line):
        (tmp_path / name).write_text("{}")
    parsed(line)


@pytest.mark.parametrize("line", ["pollerd sites edt 7", "pollerd sites edit 7 --min-intervall 5m", "pollerd diff abc"])
def test_an_example_with_a_mistake_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"did you mean|whole number"):
        parsed(line)


# Completion and the manual page come from the same commands.


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("pollerd si", {"sites", "signals", "simulate"}),
        ("pollerd sites ed", {"edit"}),
        ("pollerd rules add --ch", {"--channel"}),
        ("pollerd sites list --state pa", {"paused"}),
    ],
)
def test_the_shell_completes(typed: str, offered: set[str]) -> None:
    variables = {"_POLLERD_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    shown = CliRunner().invoke(app, [], prog_name="pollerd", env=variables).stdout
    assert set(shown.split()) == offered


def test_the_completion_of_a_shell_is_printed() -> None:
    variables = {"_POLLERD_COMPLETE": "source_bash"}  # which shell runs is not known everywhere that tests run
    shown = CliRunner().invoke(app, [], prog_name="pollerd", env=variables)
    assert "complete -o default -F _pollerd_completion pollerd" in shown.stdout


def test_the_manual_page_has_every_command_and_option(tmp_path: Path) -> None:
    page = CliRunner().invoke(app, ["man"], prog_name="pollerd").stdout
    plain = page.replace("\\-", "-")
    for path, command in COMMANDS.items():
        if path:
            assert re.search(rf"^\.SS pollerd {' '.join(path)}\b", plain, re.MULTILINE), path
        for option in command.params:
            if option.opts[0].startswith("-"):
                assert f".B {option.opts[0]}" in plain, (path, option.opts)
    if groff := shutil.which("groff"):
        (tmp_path / "pollerd.1").write_text(page)
        command_line = [groff, "-man", "-Tutf8", "-ww", "-z", "pollerd.1"]
        run = subprocess.run(command_line, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert (run.returncode, run.stderr) == (0, "")
