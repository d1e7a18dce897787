"""`pollerd tokens`: makes a token for clients with its hash for the settings, or keeps tokens in the database."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Annotated

import typer

from pollerd.api.settings import Scope, digest_of, hash_of
from pollerd.cli.options import ConfigFile, Database, Json
from pollerd.cli.output import show_json, show_list
from pollerd.model import Role
from pollerd.texts import N_
from pollerd.timestamps import rfc3339

if TYPE_CHECKING:
    from pollerd.storage.accounts import AccountStore

_BYTES = 32
_SETTING = {Scope.WRITE: "token", Scope.READ: "read_token"}
_HELP = """Create a token for the API.

Its first line is the token, shown this once; the second, with its hash, is for the --config file. The hash alone can be
the variable POLLERD_TOKEN or POLLERD_READ_TOKEN, too: the daemon never holds the token. With `add` the database keeps
the hash instead, and the settings need not change.
"""
_TOKEN_COLUMNS = ("id", "name", "role", "created_at", "used_at")

app = typer.Typer(help=_HELP)


@app.callback(invoke_without_command=True)
def tokens(
    context: typer.Context,
    scope: Annotated[Scope, typer.Option(help="read: read-only; write: full access.")] = Scope.WRITE,
    as_json: Json = False,
) -> None:
    """Makes a token, unless a subcommand is called: see `_HELP`."""
    if context.invoked_subcommand is not None:
        return
    secret = secrets.token_urlsafe(_BYTES)
    if as_json:
        show_json({"scope": scope, "token": secret, "setting": _SETTING[scope], "hash": hash_of(secret)})
    else:
        typer.echo(f'{secret}\n{_SETTING[scope]} = "{hash_of(secret)}"')


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Letters, digits or . @ + - _")],
    role: Annotated[
        Role,
        typer.Option(help="read: read-only; write: full access; signals: only reports of changed pages and reads."),
    ] = Role.READ,
    database: Database = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Create a token: print it, this once, and store its hash in the database. The daemon can be running.

    Example: pollerd tokens add cms --role signals
    """
    secret = secrets.token_urlsafe(_BYTES)
    from pollerd.cli.accounts import with_accounts  # the database

    made = with_accounts(
        database,
        config,
        lambda accounts: accounts.add_token(name, role, digest_of(secret), time.time()),
    )
    if as_json:
        show_json({"id": made.id, "name": made.name, "role": made.role.value, "token": secret})
    else:
        typer.echo(secret)


@app.command("list")
def list_(database: Database = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """List the tokens of the database, without their secrets."""
    from pollerd.cli.accounts import with_accounts  # the database

    tokens = with_accounts(database, config, lambda accounts: accounts.tokens())
    shown = [
        {
            "id": token.id,
            "name": token.name,
            "role": token.role.value,
            "created_at": rfc3339(token.created_at),
            "used_at": None if token.used_at is None else rfc3339(token.used_at),
        }
        for token in tokens
    ]
    show_list(_TOKEN_COLUMNS, shown, as_json=as_json)


@app.command("remove")
def remove(
    token: Annotated[str, typer.Argument(help="Id or name of the token.")],
    database: Database = None,
    config: ConfigFile = None,
) -> None:
    """Revoke a token of the database; its connections end."""
    from pollerd.errors import NotFoundError

    async def withdraw(accounts: AccountStore) -> None:
        ids = [stored.id for stored in await accounts.tokens() if token in (str(stored.id), stored.name)]
        if not ids:
            raise NotFoundError(N_("token"), token)
        await accounts.withdraw_token(ids[0])

    from pollerd.cli.accounts import with_accounts  # the database

    with_accounts(database, config, withdraw)
