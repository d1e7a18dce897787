"""`pollerd tokens`: a token for those who call, and its hash for the daemon."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

from pollerd.api import Scope, hash_of

_BYTES = 32
_SETTING = {Scope.WRITE: "token", Scope.READ: "read_token"}


def tokens(
    scope: Annotated[Scope, typer.Option(help="read: may only look; write: may do everything.")] = Scope.WRITE,
) -> None:
    """Makes a token. Its first line is the token, shown this once; the second, with its hash, is for the --config file.

    The hash alone may be the variable POLLERD_TOKEN or POLLERD_READ_TOKEN, too: the daemon never holds the token.
    """
    secret = secrets.token_urlsafe(_BYTES)
    typer.echo(f'{secret}\n{_SETTING[scope]} = "{hash_of(secret)}"')
