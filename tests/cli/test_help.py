"""The help of every command: its text, defaults and examples; the completion and the manual page made from it.

Rich takes words in square brackets for markup, and drops them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
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


def test_completion_is_installed_for_the_whole_program_only() -> None:
    having = [path for path, command in COMMANDS.items() for one in command.params if "completion" in one.opts[-1]]
    assert having == [(), ()]


def completion(shell: str) -> str:
    """The script that a shell sources."""
    return CliRunner().invoke(app, [], prog_name="pollerd", env={"_POLLERD_COMPLETE": f"source_{shell}"}).stdout


TYPED = {
    "pollerd si": ["sites", "signals", "simulate"],
    "pollerd rules add --ch": ["--channel"],
    "pollerd sites list --state pa": ["paused"],
    "pollerd run --allocator wh": ["whittle"],
    "pollerd tags set news --respect-ttl no": ["none"],
}


def in_shell(shell: str, script: str, folder: Path) -> str:
    """What a real shell says that sources the completion; `pollerd` is found there, as after an installation."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"there is no {shell} here")
    command = folder / "pollerd"
    command.write_text(f"#!{sys.executable}\nfrom pollerd.cli import main\nmain()\n")
    command.chmod(0o755)
    (folder / f"completion.{shell}").write_text(completion(shell))
    ours = {name: value for name, value in os.environ.items() if not name.startswith("POLLERD_")}
    variables = {**ours, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [path, "-c", script], cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_bash_completes_commands_options_and_their_values(tmp_path: Path) -> None:
    lines = [f"COMP_WORDS=({typed}) COMP_CWORD={len(typed.split()) - 1}" for typed in TYPED]
    asked = [f'{line}; COMPREPLY=(); _pollerd_completion pollerd; echo "${{COMPREPLY[*]}}"' for line in lines]
    script = "\n".join(["source ./completion.bash", "complete -p pollerd", *asked])
    bound, *offered = in_shell("bash", script, tmp_path).splitlines()
    assert bound == "complete -o default -F _pollerd_completion pollerd"
    assert [line.split() for line in offered] == list(TYPED.values())


def test_fish_completes_commands_options_and_their_values(tmp_path: Path) -> None:
    script = "source ./completion.fish; " + "; echo =; ".join(f"complete -C '{typed}'" for typed in TYPED)
    offered = in_shell("fish", script, tmp_path).split("=\n")
    words = [sorted(line.split("\t")[0] for line in lines.splitlines()) for lines in offered]
    assert words == [sorted(expected) for expected in TYPED.values()]


def test_zsh_is_offered_commands_options_and_their_values(tmp_path: Path) -> None:
    """Without a terminal zsh completes nothing: the function's call of zsh's own completion is shown instead."""
    shown = "compdef() {}; _arguments() { print -r -- $@ }; _files() { print files }"
    asked = [f"words=({typed}); CURRENT={len(typed.split())}; _pollerd_completion" for typed in TYPED]
    offered = in_shell("zsh", "; ".join([shown, "source ./completion.zsh", *asked]), tmp_path).splitlines()
    assert len(offered) == len(TYPED)
    for line, expected in zip(offered, TYPED.values(), strict=True):
        assert re.findall(r'"([\w-]+)"', line.replace("\\", "")) == expected, line


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
