"""Several nodes on one database."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    false,
)

from pollerd.storage.db.schema.base import Id, id_column, metadata

# Several nodes on one database. The number of partitions; no row: no node has ever been here.
partitioning = Table(
    "partitioning",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("partitions", Integer, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

# The partition of a host. A table of its own: only nodes fill it, and polls rewrite `host`.
host_partition = Table(
    "host_partition",
    metadata,
    Column("host_id", Id, ForeignKey("host.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("partition", Integer, nullable=False),
    Index(None, "partition", "host_id"),
)

# Nodes that are here or were: which of them are is what the lock table says. `address`: where others reach its REST.
node = Table(
    "node",
    metadata,
    id_column(),
    Column("name", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    # Whether it has taken over the allocation of all nodes, or has set it as the first.
    Column("joined", Boolean, nullable=False, server_default=false()),
    sqlite_autoincrement=True,
)

# Which node took a unit last and has not released it: a row of another node says that it died with requests under way.
holding = Table(
    "holding",
    metadata,
    Column("unit", Integer, primary_key=True, autoincrement=False),
    Column("node_id", Id, nullable=False),
    Column("since", Double, nullable=False),
)

# What a node's allocator learned of its sites in common, by the node's name.
node_state = Table(
    "node_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("allocator", Text, nullable=False),
    Column("shared_state", LargeBinary, nullable=False),
    Column("saved_at", Double, nullable=False, server_default="0"),
)

# By what the nodes sign what they ask of one another: one row. `encrypted`: whether a key was set when it was written.
cluster_secret = Table(
    "cluster_secret",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("secret", LargeBinary, nullable=False),
    Column("encrypted", Boolean, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

# The budget of all nodes, in polls a second: one row, of id 1, whose lock every change of a grant takes.
shared_budget = Table(
    "shared_budget",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("budget", Double, nullable=False),
)

# What of the budget each node has, in polls a second. `reserved`: the most that it may be spending, of which nothing is
# free; `spending`: what it last acknowledged; `target`: what it is to have, NULL before the first division. `cost`: of
# a poll of each of its sites. `curve`: bytes of a `PriceCurve`. `gone_at`: when its session was first missed.
budget_grant = Table(
    "budget_grant",
    metadata,
    Column("node", Text, primary_key=True),
    Column("reserved", Double, nullable=False),
    Column("spending", Double, nullable=False),
    Column("target", Double),
    Column("price", Double, nullable=False),
    Column("cost", Double, nullable=False),
    Column("curve", LargeBinary),
    Column("reported_at", Double, nullable=False),
    Column("gone_at", Double),
)
