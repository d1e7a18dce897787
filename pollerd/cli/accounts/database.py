"""What `users` and `tokens` have in common: the accounts of the daemon's database, beside it while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from pollerd.app.config import load
from pollerd.storage import AccountStore
from pollerd.storage.accounts.opening import open_accounts

T = TypeVar("T")

Database = Annotated[str | None, typer.Option(help="sqlite+aiosqlite:///FILE or postgresql+asyncpg://...")]


def with_accounts(database: str | None, config: Path | None, work: Callable[[AccountStore], Awaitable[T]]) -> T:
    """Returns the result of `work` on the accounts of the database that is set. Raises `PollerdError`."""
    settings = load({"database": database}, file=config)

    async def run() -> T:
        async with open_accounts(settings.options.database, settings.storage) as accounts:
            return await work(accounts)

    return asyncio.run(run())
