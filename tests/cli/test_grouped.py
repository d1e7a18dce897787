"""Options of a dataclass are options of each command that takes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from pollerd.cli import serving
from pollerd.cli.options import grouped
from pollerd.cli.run import app as run_app


@dataclass(frozen=True)
class Colours:
    """Two options."""

    paint: Annotated[str | None, typer.Option("--colour", help="Of the wall.")] = None
    shades: Annotated[list[str] | None, typer.Option("--shade")] = None


app = typer.Typer()


@app.command()
@grouped
def paint(wall: str, *, colours: Colours, coats: int = 1) -> None:
    """Paints a wall."""
    typer.echo(f"{wall} {colours.paint} {colours.shades} {coats}")


def test_a_command_is_called_with_the_dataclass() -> None:
    given = ["north", "--shade", "light", "--coats", "2", "--colour", "red", "--shade", "dull"]
    assert CliRunner().invoke(app, given).stdout == "north red ['light', 'dull'] 2\n"
    assert CliRunner().invoke(app, ["north"]).stdout.startswith("north None ")


def test_the_options_stand_in_the_help_where_the_dataclass_stands() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert "Paints a wall." in shown
    assert shown.index("--colour") < shown.index("--shade") < shown.index("--coats")


@pytest.mark.parametrize(
    ("words", "value", "urls"),
    [
        ([], None, None),
        (["--respect-ttl"], "strict", None),
        (["--respect-ttl", "my.txt"], "strict", "my.txt"),
        (["my.txt", "--respect-ttl", "--budget", "7"], "strict", "my.txt"),
        (["--respect-ttl", "hint", "my.txt"], "hint", "my.txt"),
        (["--respect-ttl=off"], "off", None),
        (["--no-respect-ttl", "my.txt"], "off", "my.txt"),
    ],
)
def test_respect_ttl_is_a_flag_still_and_takes_words(
    words: list[str], value: str | None, urls: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.txt").touch()
    given: dict[str, Any] = {}
    monkeypatch.setattr(serving, "serve", lambda flags, config: given.update(flags))
    done = CliRunner().invoke(run_app, words)
    assert done.exit_code == 0, done.output
    assert (given.get("respect_ttl"), None if given["urls"] is None else str(given["urls"])) == (value, urls)
