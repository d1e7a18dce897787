"""`pollerd tokens`: creates a token for clients with its hash for the settings, or keeps tokens in the database."""

from __future__ import annotations

import secrets
import time
from typing import Annotated

import typer

from pollerd.api.http.settings import Scope, digest_of, hash_of
from pollerd.cli.common.options import ConfigFile, Json
from pollerd.cli.common.output import show_json, show_list
from pollerd.storage.accounts.account_values import Role

_BYTES = 32
_SETTING = {Scope.WRITE: "token", Scope.READ: "read_token"}
_HELP = """Makes a token.

Its first line is the token, shown this once; the second, with its hash, is for the --config file. The hash alone may be
the variable POLLERD_TOKEN or POLLERD_READ_TOKEN, too: the daemon never holds the token. With `add` the database keeps
the hash instead, and the settings need not change.
"""
_COLUMNS = ("id", "name", "role", "created_at", "used_at")
Database = Annotated[str | None, typer.Option(help="sqlite+aiosqlite:///FILE or postgresql+asyncpg://...")]

app = typer.Typer(help=_HELP)


@app.callback(invoke_without_command=True)
def tokens(
    context: typer.Context,
    scope: Annotated[Scope, typer.Option(help="read: may only look; write: may do everything.")] = Scope.WRITE,
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


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Letters, digits or . @ + - _")],
    role: Annotated[
        Role,
        typer.Option(
            help="read: may only look; write: may do everything; signals: may only report changed pages and reads."
        ),
    ] = Role.READ,
    database: Database = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Makes a token and keeps its hash in the database; prints the token, this once. The daemon may be running."""
    from pollerd.cli.accounts.database import with_accounts

    secret = secrets.token_urlsafe(_BYTES)
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
    """Lists the tokens of the database, without their secrets."""
    from pollerd.cli.accounts.database import with_accounts
    from pollerd.timestamps import rfc3339

    found = with_accounts(database, config, lambda accounts: accounts.tokens())
    shown = [
        {
            "id": token.id,
            "name": token.name,
            "role": token.role.value,
            "created_at": rfc3339(token.created_at),
            "used_at": None if token.used_at is None else rfc3339(token.used_at),
        }
        for token in found
    ]
    show_list(_COLUMNS, shown, as_json=as_json)


@app.command()
def remove(
    token: Annotated[str, typer.Argument(help="Its id, or its name.")],
    database: Database = None,
    config: ConfigFile = None,
) -> None:
    """Withdraws a token of the database; what was opened with it ends."""
    from pollerd.cli.accounts.database import with_accounts
    from pollerd.errors import NotFoundError
    from pollerd.storage import AccountStore

    async def withdraw(accounts: AccountStore) -> None:
        found = [one.id for one in await accounts.tokens() if token in (str(one.id), one.name)]
        if not found:
            raise NotFoundError("token", token)
        await accounts.withdraw_token(found[0])

    with_accounts(database, config, withdraw)
