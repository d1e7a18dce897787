"""Migration of a database's schema to this program's version, using `migrations/`."""

from __future__ import annotations

import asyncio
import re
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection, inspect, text

from pollerd.errors import DatabaseInUseError, SchemaError
from pollerd.storage.engine import Database, database_url
from pollerd.storage.settings import StorageSettings
from pollerd.texts import _

if TYPE_CHECKING:
    from alembic.config import Config


_HERE = Path(__file__).resolve().parent
_STEP = re.compile(r"(\d{4})_\w+\.py")
_OTHERS_MIGRATE_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 0.2


_ONLY_ADD_FROM = "0036"
"""From this migration on, all only add: nodes of the version before go on beside them."""
_UNUSED_SINCE = re.compile(r"^REMOVES_WHAT_IS_UNUSED_SINCE = \"(\d{4})\"$", re.MULTILINE)
"""A migration that removes something says from which schema on programs do not use it."""


def oldest_supported() -> str:
    """Returns the oldest schema whose programs work with that of `head()`. Reads files at its first call."""
    return _oldest_supported(folder())


@cache
def _oldest_supported(migrations: Path) -> str:
    files = {step[1]: file for file in (migrations / "versions").glob("*.py") if (step := _STEP.fullmatch(file.name))}
    oldest = [revision for revision in files if revision < _ONLY_ADD_FROM]
    for revision, file in files.items():
        if revision >= _ONLY_ADD_FROM and (removes := _UNUSED_SINCE.search(file.read_text())):
            oldest.append(removes[1])
    return max(oldest)


def head() -> str:
    """Returns the revision that this program needs."""
    return max(known_revisions())


async def upgrade(url: str, settings: StorageSettings | None = None, *, create: bool = True) -> str:
    """Migrates the database at `url` to `head()`, which is returned. create: create a missing SQLite file.

    Nodes that work with that schema go on meanwhile. Raises `DatabaseInUseError` while others, or a daemon that runs
    alone, hold it, `SchemaError` if it is newer than this program.
    """
    settings = settings or StorageSettings()
    database = Database(database_url(url), settings, create=create, exclusive=True)
    try:
        await bring_up(database)
    except DatabaseInUseError:
        if database.is_sqlite or not await _bring_up_beside_nodes(url, settings):
            raise
    finally:
        await database.close()
    return head()


async def _bring_up_beside_nodes(url: str, settings: StorageSettings) -> bool:
    """Migrates while nodes run, if all of them work with the schema of `head()`; whether it was done.

    They hold the daemon's lock shared; who migrates does, too, so that no daemon that runs alone begins meanwhile.
    """
    from pollerd.storage.session_lock import SessionLock  # PostgreSQL's driver: others do not need it

    database = Database(database_url(url), settings, create=False, exclusive=True, session=SessionLock(shared=True))
    await asyncio.to_thread(oldest_supported)
    try:
        try:
            await database.lock()
        except DatabaseInUseError:
            return False
        return await database.write(_up_beside_nodes)
    finally:
        await database.close()


def _up_beside_nodes(connection: Connection) -> bool:
    """Migrates unless a node runs that does not work with the schema of `head()`; whether it was done."""
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('pollerd migration'))"))
    revision = read_revision(connection)
    check_known(revision)
    if revision is None:
        return False  # somebody who is alone makes it
    # All that run work with the schema that is there, also those that do not state theirs.
    known = max(revision, _oldest_stated(connection) or revision)
    if known < oldest_supported():
        return False
    if revision != head():
        up(connection)
        log = structlog.get_logger("pollerd.storage")
        log.warning("migrated_beside_nodes", schema=head(), previous=revision)
    return True


def _oldest_stated(connection: Connection) -> str | None:
    """Returns the oldest schema that a node states which may run; None: one states none."""
    if not any(column["name"] == "revision" for column in inspect(connection).get_columns("node")):
        return None
    rows = connection.execute(text("SELECT revision FROM node")).scalars().all()
    return None if None in rows else min(rows, default=None)


async def upgrade_beside_others(url: str, settings: StorageSettings) -> None:
    """Migrates as `upgrade`, for one of several: waits for one that is migrating already, and for nodes to end.

    Leaves a newer schema as it is if it supports this program. Raises `DatabaseInUseError` if the database is held for
    longer, as by a daemon that runs alone, or by nodes that would not work with the new schema.
    """
    until, reason = time.monotonic() + _OTHERS_MIGRATE_SECONDS, ""
    while True:
        try:
            if await _supports_this_program(url, settings):
                return
            await upgrade(url, settings, create=False)
        except DatabaseInUseError as error:
            if time.monotonic() > until:
                raise
            if str(error) != reason:
                reason = str(error)
                structlog.get_logger("pollerd.storage").warning("migration_waits", reason=reason)
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        else:
            return


async def bring_up(database: Database) -> str | None:
    """Migrates a database, opened as exclusive, to `head()`; if it must change, under the daemon's lock.

    Returns the revision before; None if there was none.
    """
    revision = await database.read(read_revision)
    check_known(revision)
    if revision == head():
        return revision
    try:
        await database.lock()
    except DatabaseInUseError as error:
        steps_to = _(
            "the schema has to be migrated from {revision} to {head} by a program that is alone",
            revision=revision or "nothing",
            head=head(),
        )
        raise DatabaseInUseError(
            _("{steps_to}, but {error}; stop them first", steps_to=steps_to, error=error)
        ) from error
    await asyncio.to_thread(oldest_supported)
    await database.write(up)
    return revision


def up(connection: Connection) -> None:
    """Upgrades to the last revision, within the caller's transaction."""
    from alembic import command

    command.upgrade(config(connection), "head")
    connection.execute(text("DELETE FROM schema_support"))
    connection.execute(
        text("INSERT INTO schema_support (id, oldest) VALUES (1, :oldest)"), {"oldest": oldest_supported()}
    )


async def _supports_this_program(url: str, settings: StorageSettings) -> bool:
    """Returns whether the database has a newer schema with which this program works."""
    database = Database(database_url(url), settings, create=False)
    try:
        revision = await database.read(read_revision)
        return revision is not None and revision > head() and await database.read(supports_this_program)
    finally:
        await database.close()


def supports_this_program(connection: Connection) -> bool:
    """Returns whether the schema is that of this program, or a newer one with which it works."""
    revision = read_revision(connection)
    if revision == head():
        return True
    if revision is None or revision < head():
        return False
    return str(connection.execute(text("SELECT oldest FROM schema_support")).scalar_one_or_none() or revision) <= head()


def down(connection: Connection, revision: str) -> None:
    """Downgrades to `revision` ("base": no tables), as `up`. Data without a place there is lost."""
    from alembic import command

    command.downgrade(config(connection), revision)


def config(connection: Connection | None = None) -> Config:
    """Returns Alembic's configuration; `migrations/env.py` uses `connection`."""
    from alembic.config import Config  # Alembic takes 11 MB permanently, and is needed only for a migration

    alembic_config = Config(attributes={"connection": connection})
    # Alembic interpolates this value: a path may contain a per cent sign.
    alembic_config.set_main_option("script_location", str(folder()).replace("%", "%%"))
    alembic_config.set_main_option("path_separator", "os")
    return alembic_config


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
        raise SchemaError(_("the database stands at several revisions: {rows}", rows=", ".join(sorted(rows))))
    return rows[0] if rows else None


def check_known(revision: str | None) -> None:
    """Raises `SchemaError` if the database was written by a newer program."""
    if revision is None:
        return
    if revision not in known_revisions():
        raise SchemaError(
            _(
                "the database's schema ({revision}) is newer than this program (up to {head}); upgrade pollerd",
                revision=revision,
                head=head(),
            )
        )


def folder() -> Path:
    """Returns the folder of the migrations: beside this file in a wheel, at the top of the checkout otherwise."""
    packaged = _HERE / "migrations"
    return packaged if (packaged / "env.py").is_file() else _HERE.parents[1] / "migrations"


def known_revisions() -> set[str]:
    """Returns the known revisions, from the names of their files. Raises `SchemaError` if there are none."""
    revisions = {step[1] for file in (folder() / "versions").glob("*.py") if (step := _STEP.fullmatch(file.name))}
    if not revisions:
        raise SchemaError(_("this installation has no migrations"))
    return revisions
