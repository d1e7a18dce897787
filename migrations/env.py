"""Runs the migrations on the connection that `pollerd.storage.migrate` hands in; the caller owns the transaction."""

from __future__ import annotations

from alembic import context

from pollerd.storage.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    # SQLite changes tables by copying them; the same scripts do for PostgreSQL.
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=True,
)
context.run_migrations()
