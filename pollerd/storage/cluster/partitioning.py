"""Sets the number of partitions of a database that no daemon holds."""

from __future__ import annotations

from pollerd.errors import InvalidValueError
from pollerd.storage.cluster.host_partitions import set_partitions
from pollerd.storage.db import migrate
from pollerd.storage.db.engine import Database, database_url
from pollerd.storage.db.statements import Statements
from pollerd.storage.settings import StorageSettings


async def set_number_of_partitions(url: str, number: int) -> None:
    """Sets the number, 1 to 4096.

    Raises `InvalidValueError`, also for SQLite, `DatabaseInUseError` while a daemon holds the database, and
    `DatabaseUnavailableError`.
    """
    target = database_url(url)
    if target.get_backend_name() == "sqlite":
        raise InvalidValueError("database", "PostgreSQL's, which alone several nodes can share", "sqlite")
    await migrate.upgrade(url, create=False)
    database = Database(target, StorageSettings(), create=False, exclusive=True)
    try:
        await database.lock()
        sql = Statements(database.engine.dialect)
        await database.write(lambda c: set_partitions(c, sql, number))
    finally:
        await database.close()
