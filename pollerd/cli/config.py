"""`pollerd config`: what is set, and where it came from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pollerd.config import load
from pollerd.storage import new_key

app = typer.Typer(help="What is set, and where it came from.", no_args_is_help=True)
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file; also POLLERD_CONFIG.")]


@app.command()
def check(config: ConfigFile = None) -> None:
    """Reads environment and file as `run` would; exit code 2 and the reason where something is wrong."""
    load({}, file=config)
    typer.echo("the settings are fine")


@app.command()
def key() -> None:
    """Makes a secret key, as secret_key takes it, for the headers and credentials of sites."""
    typer.echo(new_key())


@app.command()
def show(config: ConfigFile = None) -> None:
    """Lists every setting with its value and source; secrets are not shown."""
    rows = load({}, file=config).shown()
    if not sys.stdout.isatty():
        for name, (value, source) in rows.items():
            typer.echo(f"{name}\t{value}\t{source}")
        return
    table = Table("setting", "value", "from")
    for name, (value, source) in rows.items():
        table.add_row(name, value, source)
    Console().print(table)
