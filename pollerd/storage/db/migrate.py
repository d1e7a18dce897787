"""Brings a database's schema to what this program needs, by the migrations in `migrations/`."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from pollerd.errors import SchemaError
from pollerd.storage.db.engine import Database, database_url
from pollerd.storage.settings import StorageSettings

_HERE = Path(__file__).resolve().parent
_STEP = re.compile(r"(\d{4})_\w+\.py")


def head() -> str:
    """The revision this program needs."""
    return max(known_revisions())


async def upgrade(url: str, settings: StorageSettings | None = None, *, create: bool = True) -> str:
    """Bring the database at `url` up to `head()`, which is returned. create: make an SQLite file that is missing.

    Raises `DatabaseInUseError` while a daemon holds it, `SchemaError` where it is newer than this program.
    """
    database = Database(database_url(url), settings or StorageSettings(), create=create, exclusive=True)
    try:
        await bring_up(database)
    finally:
        await database.close()
    return head()


async def bring_up(database: Database) -> None:
    """Bring a database, opened as exclusive, up to `head()`; where that takes a change, under the daemon's lock."""
    revision = await database.read(read_revision)
    check_known(revision)
    if revision == head():
        return
    await database.lock()
    # Alembic takes 11 MB, for good, and is needed the first time only.
    from pollerd.storage.db import steps

    await database.write(steps.up)


async def current(url: str) -> str | None:
    """The revision of the database at `url`; None where it has no tables of ours yet."""
    database = Database(database_url(url), StorageSettings(), create=False)
    try:
        return await database.read(read_revision)
    finally:
        await database.close()


def read_revision(connection: Connection) -> str | None:
    """The revision a database stands at; None where it has no tables of ours yet. Raises `SchemaError`."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    rows = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(rows) > 1:
        raise SchemaError(f"the database stands at several revisions: {', '.join(sorted(rows))}")
    return rows[0] if rows else None


def check_known(revision: str | None) -> None:
    """Raises `SchemaError` where the database was written by a newer program."""
    if revision is None:
        return
    if revision not in known_revisions():
        raise SchemaError(
            f"the database's schema ({revision}) is newer than this program (up to {head()}); upgrade pollerd"
        )


def folder() -> Path:
    """Where the migrations are: beside this file in a wheel, at the top of the checkout otherwise."""
    packaged = _HERE.parent / "migrations"
    return packaged if (packaged / "env.py").is_file() else _HERE.parents[2] / "migrations"


def known_revisions() -> set[str]:
    """The revisions there are, by the names of their files. Raises `SchemaError` where there are none."""
    found = {step[1] for file in (folder() / "versions").glob("*.py") if (step := _STEP.fullmatch(file.name))}
    if not found:
        raise SchemaError("this installation has no migrations")
    return found
