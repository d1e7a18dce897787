"""Runs of the daemon, and what it keeps as a whole."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Double, Integer, LargeBinary, Table, Text

from pollerd.storage.db.schema.base import Id, id_column, metadata

allocation = Table(
    "allocation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("allocator", Text, nullable=False),
    Column("objective", Text, nullable=False),
    Column("budget", Double, nullable=False),
    Column("shared_state", LargeBinary),
    # Last poll included in `shared_state`.
    Column("learned_through", Id),
    # Seconds within which a change should be found; NULL: none was set yet.
    Column("deadline", Double),
    # Names by commas.
    Column("shadows", Text, nullable=False, server_default=""),
    CheckConstraint("id = 1", name="single"),
)

daemon_run = Table(
    "daemon_run",
    metadata,
    id_column(),
    Column("started_at", Double, nullable=False),
    Column("stopped_at", Double),
    Column("version", Text, nullable=False),
    # Who writes; empty: the only one.
    Column("writer", Text, nullable=False, server_default=""),
    sqlite_autoincrement=True,
)

# The last committed batch of each writer, so that a batch repeated after a lost answer is not counted twice.
last_batch = Table(
    "last_batch",
    metadata,
    Column("writer", Text, primary_key=True),
    Column("batch", LargeBinary, nullable=False),
)
