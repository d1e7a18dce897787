"""Opens the accounts alone, for commands: beside a running daemon, or before its first start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pollerd.storage.accounts.account_store import AccountStore
from pollerd.storage.db import migrate
from pollerd.storage.db.engine import Database, check_place, database_url
from pollerd.storage.settings import StorageSettings


@asynccontextmanager
async def open_accounts(url: str, settings: StorageSettings) -> AsyncIterator[AccountStore]:
    """Yields the accounts of the database at `url`; creates a missing SQLite file, and brings the schema up.

    Needs no key: accounts are hashed, not encrypted. Raises `DatabaseInUseError` if the schema must be brought up while
    a daemon runs, and the errors of `Store.open`.
    """
    check_place(url)
    await migrate.upgrade(url, settings)
    database = Database(database_url(url), settings, create=False)
    try:
        yield AccountStore(database=database)
    finally:
        await database.close()
