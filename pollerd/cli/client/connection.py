"""Connects a command to the daemon, and maps errors to exit codes.

Exit codes: 1 for a problem (the daemon does not answer, is not ready, or a finding is bad), 2 if the command cannot be
executed as given.
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
    """Yields a client of the daemon; errors end the command with one clear line."""
    try:
        yield client_of(url, token, timeout)
    except PollerdError as error:
        say_wrong(error)
        raise typer.Exit(exit_code(error)) from error


def client_of(url: str | None, token: str | None, timeout: float) -> ApiClient:
    """Returns a client of the daemon at `url`, or of the environment. Raises `PollerdError` for bad variables."""
    _check_other_variables()
    default_url, default_token = client_defaults()
    return ApiClient(url or default_url, token or default_token, timeout=timeout)


def say_wrong(error: PollerdError) -> None:
    """Writes the error as one line on standard error."""
    typer.echo(f"pollerd: {clean(str(error))}", err=True)


def exit_code(error: PollerdError) -> int:
    """Returns the exit code of a command for the error."""
    return WRONG if isinstance(error, UnansweredError) else REFUSED


def _check_other_variables() -> None:
    """Rejects misspelled variables, as the daemon does. Loads the daemon's options only if needed."""
    others = other_variables()
    if others:
        from pollerd.app.config import check_variables

        check_variables(others)
