"""`pollerd tokens`: creates a token for clients, and its hash for the daemon."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

from pollerd.api.http.settings import Scope, hash_of
from pollerd.cli.common.options import Json
from pollerd.cli.common.output import show_json

_BYTES = 32
_SETTING = {Scope.WRITE: "token", Scope.READ: "read_token"}


def tokens(
    scope: Annotated[Scope, typer.Option(help="read: may only look; write: may do everything.")] = Scope.WRITE,
    as_json: Json = False,
) -> None:
    """Makes a token. Its first line is the token, shown this once; the second, with its hash, is for the --config file.

    The hash alone may be the variable POLLERD_TOKEN or POLLERD_READ_TOKEN, too: the daemon never holds the token.
    """
    secret = secrets.token_urlsafe(_BYTES)
    if as_json:
        show_json({"scope": scope, "token": secret, "setting": _SETTING[scope], "hash": hash_of(secret)})
    else:
        typer.echo(f'{secret}\n{_SETTING[scope]} = "{hash_of(secret)}"')
