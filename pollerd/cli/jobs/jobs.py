"""`pollerd jobs`: what is done to many sites of a running daemon, and how it is undone."""

from __future__ import annotations

from typing import Annotated

import typer

from pollerd.cli.client.client import TIMEOUT_SECONDS
from pollerd.cli.client.connection import daemon_at
from pollerd.cli.common.options import Json, Timeout, Token, Url
from pollerd.cli.common.output import show_list, show_one
from pollerd.cli.jobs.bulk import show_ended

app = typer.Typer(help="What was done to many sites, and how it is undone.")
_COLUMNS = ("id", "action", "state", "total", "seen", "changed", "refused", "created_at", "undo_until", "by")
JobId = Annotated[int, typer.Argument(metavar="ID", help="As `pollerd jobs` lists.", min=1)]


@app.callback(invoke_without_command=True)
def jobs(
    context: typer.Context,
    limit: Annotated[int, typer.Option(help="At most so many, the newest.", min=0)] = 20,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Lists jobs, newest first."""
    if context.invoked_subcommand is not None:
        return
    with daemon_at(url, token, timeout) as daemon:
        found = daemon.pages("/jobs", {}, limit)
        show_list(_COLUMNS, found, as_json=as_json)


@app.command()
def show(
    job: JobId, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Shows how far a job is."""
    with daemon_at(url, token, timeout) as daemon:
        found = daemon.call("GET", f"/jobs/{job}")
        show_one(found, as_json=as_json)


@app.command()
def undo(
    job: JobId,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end.")] = True,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Takes back what a job did, but for what was changed again since."""
    with daemon_at(url, token, timeout) as daemon:
        show_ended(daemon, daemon.call("POST", f"/jobs/{job}/undo"), wait=wait, as_json=as_json)
