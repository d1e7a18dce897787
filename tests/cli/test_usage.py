"""Wrong command lines: each parameter of each command with values that it cannot have, in our words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pollerd.cli.commands import app
from pollerd.cli.usage import UsageError
from pollerd.errors import file_fault, nearest
from pollerd.texts import speaking
from tests.support.pseudo import PseudoLanguage, untranslated

BAD = ("few", "-1", "1e999", "/no/such/file", "@/no/such/file", "", "{")


def commands(command: Any, path: str = "pollerd") -> Iterator[tuple[str, Any]]:
    yield path, command
    context = command.context_class(command)
    for name in getattr(command, "commands", ()):
        yield from commands(command.resolve_command(context, [name])[1], f"{path} {name}")


def refused(path: str, command: Any, *arguments: str) -> str | None:
    """What is said to arguments that cannot be parsed; None: they can, or the help is shown."""
    try:
        with command.make_context(path, list(arguments)):
            return None
    except UsageError as error:
        return None if type(error).__name__ == "NoArgsIsHelpError" else str(error.format_message())


def every_command() -> list[tuple[str, Any]]:
    return list(commands(typer.main.get_command(app)))


def wrong_calls() -> Iterator[tuple[str, Any, list[str]]]:
    for path, command in every_command():
        yield path, command, ["--nosuch"]
        yield path, command, ["-ä"]
        yield path, command, ["two", "more", "words", "of", "7"]
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                yield from ((path, command, [value]) for value in BAD)
            elif parameter.is_flag:
                yield path, command, [f"{parameter.opts[-1]}=7"]
            elif not parameter.opts[-1].endswith("completion"):
                yield path, command, [parameter.opts[-1]]
                yield from ((path, command, [parameter.opts[-1], value]) for value in BAD)


def names_of(command: Any) -> list[str]:
    """The words of a command that are the same in all languages: names, placeholders and choices."""
    return [
        str(getattr(name, "value", name))
        for one in command.params
        for name in (one.name, one.metavar or "", *one.opts, *getattr(one.type, "choices", ()))
        if name
    ]


def test_every_refusal_is_in_our_words() -> None:
    of_program = ("two more words of", *BAD, "nosuch")
    foreign, seen = [], 0
    with speaking(PseudoLanguage()):
        for path, command, arguments in wrong_calls():
            said = refused(path, command, *arguments)
            if said is None:
                continue
            seen += 1
            words = untranslated(said, [*of_program, *path.split(), *names_of(command)])
            if words or "⟦" not in said:
                foreign.append((path, arguments, said, words))
    assert foreign == []
    assert seen > 600


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("changes --limit few", "--limit: must be a whole number, 0 or more; given: 'few'"),
        ("changes --limit -1", "--limit: must be a whole number, 0 or more; given: '-1'"),
        ("simulate web --steps 0", "--steps: must be a whole number from 1 to 100,000,000; given: '0'"),
        ("sites list --limit", "--limit needs a value: a whole number, 0 or more"),
        ("run --listen", "--listen needs a value; `pollerd run --help` describes it"),
        ("changes --json=1", "--json takes no value: leave out what follows the ="),
        ("changes one two", "unexpected: one two; use: pollerd changes [OPTIONS]"),
        ("jobs undo", "ID is missing; use: pollerd jobs undo ID [OPTIONS]"),
        ("rules mute prices", "--until is missing; use: pollerd rules mute RULE --until TIME [OPTIONS]"),
        ("users role ada rea", "ROLE: must be one of read, write (nearest: read); given: 'rea'"),
        ("sites lst", "there is no command lst; did you mean list?"),
        ("jobs unod 7", "there is no command unod; did you mean undo?"),
        ("sites frobnicate", "there is no command frobnicate; `pollerd sites --help` lists all"),
        ("sites edit 1 --wieght 2", "there is no option --wieght; did you mean --weight?"),
        ("sites edit 1 --cookie a=b", "there is no option --cookie; did you mean --headers?"),
        ("deliveries --since 2h", "there is no option --since; `pollerd deliveries --help` lists all"),
        ("tokens add n --frobnicate", "there is no option --frobnicate; `pollerd tokens add --help` lists all"),
        (
            "changes --since yesterday",
            "--since: must be 2h (two hours ago), or a time such as 2026-01-31T12:00:00Z; given: 'yesterday'",
        ),
        (
            "sites edit 1 --select {",
            "--select: not valid JSON: expecting property name enclosed in double quotes (line 1, column 2)",
        ),
        ("run nosuch.txt", "LIST_OF_SITES: there is no file nosuch.txt"),
        ("run --respect-ttl maybe", "LIST_OF_SITES: there is no file maybe; --respect-ttl takes off|hint|strict"),
        ("run --sync yes", "LIST_OF_SITES: there is no file yes; --sync takes no value: leave out yes"),
        ("run /", "LIST_OF_SITES: / is a folder, not a file"),
        ("run /no/list", "LIST_OF_SITES: there is no folder /no"),
        ("changes --json yes", "unexpected: yes; use: pollerd changes [OPTIONS]; --json takes no value: leave out yes"),
        (
            "simulate web x --told-rates off",
            "unexpected: off; use: pollerd simulate WORLD [FILE] [OPTIONS]; "
            "--told-rates takes no value: write --told-rates or --no-told-rates",
        ),
        ("sites diff /", "FILE: / is a folder, not a file"),
        ("import --dry-run yes", "FILE: there is no file yes; --dry-run takes no value: leave out yes"),
        ("rules add --file /", "/ is a folder, not a file"),
        ("users add ada --password-file /", "/ is a folder, not a file"),
        ("sites edit 1 --select @/", "--select: / is a folder, not a file"),
        ("sites add https://example.org/ --pdf-password @/", "--pdf-password: / is a folder, not a file"),
        ("sites import nosuch", "FILE: there is no file nosuch"),
    ],
)
def test_sentences(line: str, sentence: str) -> None:
    result = CliRunner().invoke(app, line.split(), env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert f"│ {sentence} " in result.output


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (FileNotFoundError(), "there is no file /x"),
        (IsADirectoryError(), "/x is a folder, not a file"),
        (PermissionError(), "the user who runs pollerd has no permission for /x"),
        (OSError(errno.EIO, "Input/output error"), "/x cannot be used: Input/output error"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "/x is not text in UTF-8"),
    ],
)
def test_files_that_cannot_be_used(error: OSError | ValueError, sentence: str) -> None:
    assert file_fault("/x", error) == sentence


@pytest.mark.parametrize(
    ("given", "names", "near"),
    [
        ("wieght", ["weight", "width"], "weight"),
        ("min-intervall", ["min_interval", "max_interval"], "min_interval, max_interval"),
        ("interval", ["url", "max_interval"], "max_interval"),
        ("Berlin", ["Europe/Berlin", "Europe/Belgrade"], "Europe/Berlin"),
        ("tag", ["stage", "tags", "tog"], "tags, tog, stage"),
        ("monday", ["mon", "tue"], "mon"),
        ("addres", ["headers", "query", "secret", "url"], ""),
        ("to", ["tls", "port", "title"], ""),
        ("best", ["ucb1", "whittle"], ""),
        ("", ["url"], ""),
    ],
)
def test_names_that_were_probably_meant(given: str, names: list[str], near: str) -> None:
    assert nearest(given, names) == near
