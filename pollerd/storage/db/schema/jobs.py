"""What is done to many sites."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Table, Text

from pollerd.storage.db.schema.base import Id, id_column, metadata, partial_index

# Something done to many sites. `filter`, `ids` and `value`: JSON; one of the first two is NULL. Sites with ids up to
# `newest_id` are among those that it is done to. `position`: all sites up to this id were seen; while it is undone, all
# that it changed. `by`: the user. `undo_until`: what it changed is kept until then; NULL: nothing of it can be undone.
job = Table(
    "job",
    metadata,
    id_column(),
    Column("action", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("filter", Text),
    Column("ids", Text),
    Column("newest_id", Id, nullable=False),
    Column("by", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("total_is_exact", Boolean, nullable=False),
    Column("position", Id, nullable=False, server_default="0"),
    Column("seen", BigInteger, nullable=False, server_default="0"),
    Column("changed", BigInteger, nullable=False, server_default="0"),
    Column("refused", BigInteger, nullable=False, server_default="0"),
    Column("restored", BigInteger, nullable=False, server_default="0"),
    Column("detail", Text, nullable=False, server_default=""),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("undo_until", Double),
    partial_index("ix_job_open", "id", where="ended_at IS NULL"),
    Index(None, "undo_until"),
    sqlite_autoincrement=True,
)

# What a job changed of a site, as JSON: its settings before. No foreign key: the site may be gone meanwhile.
job_change = Table(
    "job_change",
    metadata,
    Column("job_id", Id, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("site_id", Id, primary_key=True, autoincrement=False),
    Column("before", Text, nullable=False),
)
