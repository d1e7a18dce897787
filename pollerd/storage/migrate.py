"""Migration of a database's schema to this program's version, using `migrations/`."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection, inspect, text

from pollerd.errors import DatabaseInUseError, SchemaError
from pollerd.storage.engine import Database, database_url
from pollerd.storage.settings import StorageSettings

if TYPE_CHECKING:
    from alembic.config import Config


_HERE = Path(__file__).resolve().parent
_STEP = re.compile(r"(\d{4})_\w+\.py")
_OTHERS_MIGRATE_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 0.2


def head() -> str:
    """Returns the revision that this program needs."""
    return max(known_revisions())


async def upgrade(url: str, settings: StorageSettings | None = None, *, create: bool = True) -> str:
    """Migrates the database at `url` to `head()`, which is returned. create: create a missing SQLite file.

    Raises `DatabaseInUseError` while a daemon holds it, `SchemaError` if it is newer than this program.
    """
    database = Database(database_url(url), settings or StorageSettings(), create=create, exclusive=True)
    try:
        await bring_up(database)
    finally:
        await database.close()
    return head()


async def upgrade_beside_others(url: str, settings: StorageSettings) -> None:
    """Migrates as `upgrade`, for one of several: waits for one that is migrating already, and for nodes to end.

    Raises `DatabaseInUseError` if the database is held for longer, as by a daemon that runs alone.
    """
    until, said = time.monotonic() + _OTHERS_MIGRATE_SECONDS, ""
    while True:
        try:
            await upgrade(url, settings, create=False)
        except DatabaseInUseError as error:
            if time.monotonic() > until:
                raise
            if str(error) != said:
                said = str(error)
                structlog.get_logger("pollerd.storage").warning("migration_waits", reason=said)
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        else:
            return


async def bring_up(database: Database) -> None:
    """Migrates a database, opened as exclusive, to `head()`; if it must change, under the daemon's lock."""
    revision = await database.read(read_revision)
    check_known(revision)
    if revision == head():
        return
    try:
        await database.lock()
    except DatabaseInUseError as error:
        steps_to = f"the schema has to be migrated from {revision or 'nothing'} to {head()} by a program that is alone"
        raise DatabaseInUseError(f"{steps_to}, but {error}") from error
    await database.write(up)


def up(connection: Connection) -> None:
    """Upgrades to the last revision, within the caller's transaction."""
    from alembic import command

    command.upgrade(config(connection), "head")


def down(connection: Connection, revision: str) -> None:
    """Downgrades to `revision` ("base": no tables), as `up`. Data without a place there is lost."""
    from alembic import command

    command.downgrade(config(connection), revision)


def config(connection: Connection | None = None) -> Config:
    """Returns Alembic's configuration; `migrations/env.py` uses `connection`."""
    from alembic.config import Config  # Alembic takes 11 MB permanently, and is needed only for a migration

    found = Config(attributes={"connection": connection})
    # Alembic interpolates this value: a path may contain a per cent sign.
    found.set_main_option("script_location", str(folder()).replace("%", "%%"))
    found.set_main_option("path_separator", "os")
    return found


async def current(url: str) -> str | None:
    """Returns the revision of the database at `url`; None if it has no tables of ours yet."""
    database = Database(database_url(url), StorageSettings(), create=False)
    try:
        return await database.read(read_revision)
    finally:
        await database.close()


def read_revision(connection: Connection) -> str | None:
    """Returns the revision of a database; None if it has no tables of ours yet. Raises `SchemaError`."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    rows = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(rows) > 1:
        raise SchemaError(f"the database stands at several revisions: {', '.join(sorted(rows))}")
    return rows[0] if rows else None


def check_known(revision: str | None) -> None:
    """Raises `SchemaError` if the database was written by a newer program."""
    if revision is None:
        return
    if revision not in known_revisions():
        raise SchemaError(
            f"the database's schema ({revision}) is newer than this program (up to {head()}); upgrade pollerd"
        )


def folder() -> Path:
    """Returns the folder of the migrations: beside this file in a wheel, at the top of the checkout otherwise."""
    packaged = _HERE / "migrations"
    return packaged if (packaged / "env.py").is_file() else _HERE.parents[1] / "migrations"


def known_revisions() -> set[str]:
    """Returns the known revisions, from the names of their files. Raises `SchemaError` if there are none."""
    found = {step[1] for file in (folder() / "versions").glob("*.py") if (step := _STEP.fullmatch(file.name))}
    if not found:
        raise SchemaError("this installation has no migrations")
    return found
