"""The daemon that a command speaks to, and how what goes wrong there ends the command.

Exit codes: 1 where something is wrong (the daemon does not answer, is not ready, or a finding says so), 2 where the
command cannot be done as it was given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from pollerd.app.environment import client_defaults, other_variables
from pollerd.cli.client.client import ApiClient
from pollerd.cli.common.call_errors import UnansweredError
from pollerd.cli.common.text import clean
from pollerd.errors import PollerdError

WRONG, REFUSED = 1, 2


@contextmanager
def daemon_at(url: str | None, token: str | None, timeout: float) -> Iterator[ApiClient]:
    """A client of the daemon; what goes wrong ends the command with one clear line."""
    try:
        yield client_of(url, token, timeout)
    except PollerdError as error:
        say_wrong(error)
        raise typer.Exit(exit_code(error)) from error


def client_of(url: str | None, token: str | None, timeout: float) -> ApiClient:
    """A client of the daemon at `url`, or where the environment says. Raises `PollerdError` for bad variables."""
    _check_other_variables()
    default_url, default_token = client_defaults()
    return ApiClient(url or default_url, token or default_token, timeout=timeout)


def say_wrong(error: PollerdError) -> None:
    """One line on standard error."""
    typer.echo(f"pollerd: {clean(str(error))}", err=True)


def exit_code(error: PollerdError) -> int:
    """What a command ends with that met the error."""
    return WRONG if isinstance(error, UnansweredError) else REFUSED


def _check_other_variables() -> None:
    """A misspelled variable is an error here as it is for the daemon. The daemon's options are loaded only for that."""
    others = other_variables()
    if others:
        from pollerd.app.config import check_variables

        check_variables(others)
