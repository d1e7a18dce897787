"""Alembic at work: the schema moved up and down, within the caller's transaction."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from pollerd.storage.db.migrate import folder


def up(connection: Connection) -> None:
    """Move up to the last revision."""
    command.upgrade(config(connection), "head")


def down(connection: Connection, revision: str) -> None:
    """Move down to `revision` ("base": no tables). What does not fit is lost."""
    command.downgrade(config(connection), revision)


def config(connection: Connection | None = None) -> Config:
    """What Alembic needs to know; `connection` is the one that `migrations/env.py` works on."""
    found = Config(attributes={"connection": connection})
    # Alembic interpolates this value: a path may hold a per cent sign.
    found.set_main_option("script_location", str(folder()).replace("%", "%%"))
    found.set_main_option("path_separator", "os")
    return found
