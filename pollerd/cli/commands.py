"""All commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from pollerd import __version__
from pollerd.cli import collection, config, db, demo, doctor, reproduce, run, simulate, sites, tokens

app = typer.Typer(
    name="pollerd",
    help="Watches web pages and feeds for change, under one budget of polls per second.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pollerd {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """What every command takes."""


app.command(name="run")(run.run)
app.command(name="demo")(demo.demo)
app.command(name="simulate")(simulate.simulate)
app.command(name="reproduce")(reproduce.reproduce)
app.command(name="doctor")(doctor.doctor)
app.command(name="tokens")(tokens.tokens)
app.add_typer(sites.app, name="sites")
app.add_typer(collection.app, name="collection")
app.add_typer(db.app, name="db")
app.add_typer(config.app, name="config")
