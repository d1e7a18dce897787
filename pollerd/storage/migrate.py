"""Brings a database's schema to what this program needs, by the migrations in `migrations/`."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from pollerd.errors import SchemaError
from pollerd.storage.engine import Database, database_url
from pollerd.storage.lock import take_lock
from pollerd.storage.settings import StorageSettings

_HERE = Path(__file__).resolve().parent


def head() -> str:
    """The revision this program needs."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    if revision is None:
        raise SchemaError("this installation has no migrations")
    return revision


async def upgrade(url: str) -> str:
    """Create the database at `url` or bring it up to `head()`, which is returned.

    Raises `DatabaseInUseError` while a daemon holds it, `SchemaError` where it is newer than this program.
    """
    database = Database(database_url(url), StorageSettings(), create=True)
    try:
        await bring_up(database)
    finally:
        await database.close()
    return head()


async def bring_up(database: Database, *, locked: bool = False) -> None:
    """Bring an open database up to `head()`; `locked`: the caller holds the daemon's lock already."""
    revision = await database.read(read_revision)
    check_known(revision)
    if revision == head():
        return
    lock = None if locked else await take_lock(database)
    try:
        await database.write(migrate)
    finally:
        if lock is not None:
            await lock.release()


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
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision not in known:
        raise SchemaError(
            f"the database's schema ({revision}) is newer than this program (up to {head()}); upgrade pollerd"
        )


def migrate(connection: Connection, revision: str = "head") -> None:
    """Move up to `revision`, within the caller's transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def migrate_down(connection: Connection, revision: str) -> None:
    """Move down to `revision` ("base": no tables), within the caller's transaction. What does not fit is lost."""
    config = _config()
    config.attributes["connection"] = connection
    command.downgrade(config, revision)


def _config() -> Config:
    config = Config()
    # Alembic interpolates this value: a path may hold a per cent sign.
    config.set_main_option("script_location", str(_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _folder() -> Path:
    """Beside this file in a wheel, at the top of the checkout otherwise."""
    packaged = _HERE / "migrations"
    return packaged if (packaged / "env.py").is_file() else _HERE.parents[1] / "migrations"
