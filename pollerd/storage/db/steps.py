"""Runs Alembic migrations within the caller's transaction."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from pollerd.storage.db.migrate import folder


def up(connection: Connection) -> None:
    """Upgrades to the last revision."""
    command.upgrade(config(connection), "head")


def down(connection: Connection, revision: str) -> None:
    """Downgrades to `revision` ("base": no tables). Data without a place there is lost."""
    command.downgrade(config(connection), revision)


def config(connection: Connection | None = None) -> Config:
    """Returns Alembic's configuration; `migrations/env.py` uses `connection`."""
    found = Config(attributes={"connection": connection})
    # Alembic interpolates this value: a path may contain a per cent sign.
    found.set_main_option("script_location", str(folder()).replace("%", "%%"))
    found.set_main_option("path_separator", "os")
    return found
