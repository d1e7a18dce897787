"""Options of a dataclass are options of each command that takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from pollerd.cli.common.grouped import grouped


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
