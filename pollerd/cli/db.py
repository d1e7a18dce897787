"""`pollerd db`: the database's schema."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from pollerd.app.config import load
from pollerd.cli.client.connection import WRONG
from pollerd.cli.common.options import ConfigFile, Json
from pollerd.cli.common.output import show_json
from pollerd.storage.db import migrate

app = typer.Typer(help="The database's schema.", no_args_is_help=True)

Database = Annotated[str | None, typer.Option(help="sqlite+aiosqlite:///FILE or postgresql+asyncpg://...")]


@app.command()
def upgrade(database: Database = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """Brings the schema up to this program's; `run` does so by itself."""
    url = load({"database": database}, file=config).options.database
    asyncio.run(migrate.upgrade(url))
    if as_json:
        show_json({"schema": migrate.head(), "needed": migrate.head()})
    else:
        typer.echo(f"schema is at {migrate.head()}")


@app.command()
def check(database: Database = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """Tells whether the schema fits this program; exit code 1 where it does not."""
    url = load({"database": database}, file=config).options.database
    found = asyncio.run(migrate.current(url))
    if as_json:
        show_json({"schema": found, "needed": migrate.head()})
    else:
        typer.echo(f"schema is at {found or 'nothing'}; this program needs {migrate.head()}")
    raise typer.Exit(0 if found == migrate.head() else WRONG)
