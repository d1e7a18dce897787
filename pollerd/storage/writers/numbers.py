"""Raises the numbers that are given next, past those that a failover lost."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from pollerd.errors import InvalidValueError
from pollerd.storage.db.engine import Database, database_url
from pollerd.storage.db.schema import metadata
from pollerd.storage.db.writer_locks import WriterLocks, place_of
from pollerd.storage.settings import StorageSettings

MOST = 10**12
"""Numbers stay far below 2^53, up to which JavaScript tells one from the next."""
_RAISE = "SELECT setval($1::text::regclass, nextval($1::text::regclass) + $2::bigint)"
_SEQUENCE = "SELECT pg_get_serial_sequence($1, 'id')"


async def raise_numbers(url: str, by: int) -> dict[str, int]:
    """Sets the numbers of every table ahead by so many (1 to 10^12); returns the last one passed over, by table.

    For a database that lacks its newest commits, as a replica may that became the primary: readers, and whoever kept a
    number, know numbers that the database would give again, to something else. No number is given twice if at most `by`
    were given since what the database has. May be repeated. Raises `InvalidValueError`, also for SQLite, and
    `DatabaseUnavailableError`.
    """
    if not 1 <= by <= MOST:
        raise InvalidValueError("by", f"1 to {MOST}", by)
    target = database_url(url)
    if target.get_backend_name() == "sqlite":
        raise InvalidValueError("database", "PostgreSQL's: a SQLite file has no replicas", "sqlite")
    database = Database(target, StorageSettings(), create=False)
    try:
        return await database.write(lambda c: _raise(c, by))
    finally:
        await database.close()


def _raise(connection: Connection, by: int) -> dict[str, int]:
    # Nobody must be between drawing a number and its commit: a reader could see a later one first.
    WriterLocks(place_of(connection)).number_events(connection)
    found: dict[str, int] = {}
    for table in metadata.sorted_tables:
        if "id" in table.c and (sequence := _scalar(connection, _SEQUENCE, table.name)) is not None:
            found[table.name] = int(_scalar(connection, _RAISE, sequence, by))
    return found


def _scalar(connection: Connection, sql: str, *parameters: Any) -> Any:
    return connection.exec_driver_sql(sql, parameters).scalar_one()
