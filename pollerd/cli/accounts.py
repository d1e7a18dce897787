"""`pollerd users` and `pollerd tokens`: accounts in the daemon's database.

Both work while the daemon runs, which follows within seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from pollerd.api.auth.sign_in import check_password, hash_now
from pollerd.api.settings import Scope
from pollerd.app.config import load
from pollerd.cli.options import ConfigFile, Database, Json
from pollerd.cli.output import ask_secret, show_list, show_one
from pollerd.errors import file_fault
from pollerd.model import Role
from pollerd.storage.accounts import AccountStore, User, check_name, open_accounts
from pollerd.texts import _
from pollerd.timestamps import rfc3339

# Access to the accounts, for both.

T = TypeVar("T")


def with_accounts(database: str | None, config: Path | None, work: Callable[[AccountStore], Awaitable[T]]) -> T:
    """Returns the result of `work` on the accounts of the database that is set. Raises `PollerdError`."""
    settings = load({"database": database}, file=config)

    async def run() -> T:
        async with open_accounts(settings.options.database, settings.storage) as accounts:
            return await work(accounts)

    return asyncio.run(run())


app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The user's name, in any case.")]
NewRole = Annotated[Scope, typer.Option("--role", help="read: read-only; write: full access.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(help="File with the password in one line; -: standard input. Default: you are prompted for it."),
]
_USER_COLUMNS = ("name", "role", "created_at", "has_password")
_STDIN = "-"


@app.command("list")
def list_(database: Database = None, config: ConfigFile = None, as_json: Json = False) -> None:
    """List users: name, role, time added, whether they have a password."""
    users = [_shown(user) for user in with_accounts(database, config, lambda accounts: accounts.users())]
    show_list(_USER_COLUMNS, users, as_json=as_json)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Letters, digits or . @ + - _")],
    role: NewRole = Scope.READ,
    password_file: PasswordFile = None,
    no_password: Annotated[bool, typer.Option("--no-password", help="Only a trusted proxy signs the user in.")] = False,
    database: Database = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Add a user. As soon as there is one, all clients must sign in or send a token.

    Example: pollerd users add ada --role write
    """
    if no_password and password_file is not None:
        raise typer.BadParameter(_("--no-password and --password-file exclude each other"))
    name = check_name(name)
    hashed = None if no_password else hash_now(_password(password_file))
    user = with_accounts(
        database, config, lambda accounts: accounts.add_user(name, Role(role.value), hashed, time.time())
    )
    show_one(_shown(user), as_json=as_json)


@app.command()
def password(
    name: Name,
    password_file: PasswordFile = None,
    database: Database = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Set a user's password. The user's sessions end."""
    hashed = hash_now(_password(password_file))
    show_one(
        _shown(with_accounts(database, config, lambda accounts: accounts.change_user(name, password_hash=hashed))),
        as_json=as_json,
    )


@app.command()
def role(
    name: Name,
    new_role: Annotated[Scope, typer.Argument(metavar="ROLE", help="read: read-only; write: full access.")],
    database: Database = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Set a user's role."""
    show_one(
        _shown(with_accounts(database, config, lambda accounts: accounts.change_user(name, role=Role(new_role.value)))),
        as_json=as_json,
    )


@app.command()
def remove(name: Name, database: Database = None, config: ConfigFile = None) -> None:
    """Remove a user. The user's sessions end."""
    with_accounts(database, config, lambda accounts: accounts.remove_user(name))


def _password(file: Path | None) -> str:
    """Returns the password of a file, of standard input, or as typed twice. Raises BadParameter, InvalidValueError."""
    if file is None and sys.stdin.isatty():
        return check_password(ask_secret(_("Password"), twice=True))
    if file is None:
        raise typer.BadParameter(_("there is no terminal to ask for the password at: give --password-file"))
    try:
        text = sys.stdin.read() if str(file) == _STDIN else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(file_fault(file, error)) from error
    return check_password(text.removesuffix("\n").removesuffix("\r"))


def _shown(user: User) -> dict[str, object]:
    return {
        "name": user.name,
        "role": user.role.value,
        "created_at": rfc3339(user.created_at),
        "has_password": user.has_password,
    }
