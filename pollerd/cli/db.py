"""`pollerd db`: the database's schema, its numbers, and its partitions."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from pollerd.app.config import load
from pollerd.cli.client import WRONG
from pollerd.cli.options import ConfigFile, Json
from pollerd.cli.output import show_json
from pollerd.storage import migrate
from pollerd.storage.nodes import set_number_of_partitions
from pollerd.storage.runs import MOST, raise_numbers
from pollerd.texts import _, n_

app = typer.Typer(no_args_is_help=True)

Database = Annotated[str | None, typer.Option(help="sqlite+aiosqlite:///FILE or postgresql+asyncpg://...")]


@app.command()
def upgrade(database: Database = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """Upgrade the schema to this program's; `run` does so by itself."""
    url = load({"database": database}, file=config).options.database
    asyncio.run(migrate.upgrade(url))
    if as_json:
        show_json({"schema": migrate.head(), "needed": migrate.head()})
    else:
        typer.echo(_("schema is at {head}", head=migrate.head()))


@app.command()
def check(database: Database = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """Check that the schema fits this program. Exit code 1: it does not."""
    url = load({"database": database}, file=config).options.database
    schema = asyncio.run(migrate.current(url))
    if as_json:
        show_json({"schema": schema, "needed": migrate.head()})
    else:
        typer.echo(
            _("schema is at {schema}; this program needs {head}", schema=schema or "nothing", head=migrate.head())
        )
    raise typer.Exit(0 if schema == migrate.head() else WRONG)


@app.command("raise-numbers")
def raise_all(
    by: Annotated[
        int,
        typer.Option(min=1, max=MOST, help="how far: more than the numbers that were used since the replica's state"),
    ] = 10**6,
    database: Database = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Move all numbers ahead, after a failover to a PostgreSQL replica that lacks the newest commits."""
    url = load({"database": database}, file=config).options.database
    raised = asyncio.run(raise_numbers(url, by))
    if as_json:
        show_json({"by": by, "passed_over": raised})
    else:
        typer.echo(_("the next change has a number above {change}", change=raised["change"]))


@app.command()
def partitions(
    number: Annotated[int, typer.Argument(help="How many, 1 to 4096; several nodes share them out.")],
    database: Database = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Set the number of partitions of a PostgreSQL database, while no daemon runs; hosts get new partitions."""
    url = load({"database": database}, file=config).options.database
    asyncio.run(set_number_of_partitions(url, number))
    if as_json:
        show_json({"partitions": number})
    else:
        typer.echo(n_("{count} partition", "{count} partitions", number))
