"""`pollerd config`: settings and their sources."""

from __future__ import annotations

import typer

from pollerd.app.config import load
from pollerd.cli.options import ConfigFile, Json
from pollerd.cli.output import show_json, show_rows
from pollerd.texts import _

app = typer.Typer(no_args_is_help=True)


@app.command()
def check(config: ConfigFile = None, as_json: Json = False) -> None:
    """Check environment and file as `run` reads them. If something is wrong: exit code 2, and the reason."""
    load({}, file=config)
    if as_json:
        show_json({"fine": True})
    else:
        typer.echo(_("the settings are fine"))


@app.command()
def key(as_json: Json = False) -> None:
    """Create a secret key (setting secret_key) for the headers and credentials of sites."""
    from pollerd.storage.keys import new_key  # cryptography, which only this command needs

    made = new_key()
    if as_json:
        show_json({"secret_key": made})
    else:
        typer.echo(made)


@app.command()
def show(config: ConfigFile = None, as_json: Json = False) -> None:
    """List every setting with its value and source. Secrets are not shown."""
    rows = load({}, file=config).shown()
    if as_json:
        show_json({name: {"value": value, "source": source} for name, (value, source) in rows.items()})
    else:
        show_rows(("setting", "value", "from"), ((name, *row) for name, row in rows.items()))
