"""Several nodes on one database: partitions, the nodes, and who held what last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "partitioning",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_partitioning_single")),
    )
    op.create_table(
        "host_partition",
        sa.Column("host_id", _ID, autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("host_id", name="pk_host_partition"),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name="fk_host_partition_host_id", ondelete="CASCADE"),
    )
    op.create_index("ix_host_partition_partition_host_id", "host_partition", ["partition", "host_id"])
    op.create_table(
        "node",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_node"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "holding",
        sa.Column("unit", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("node_id", _ID, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("unit", name="pk_holding"),
    )
    op.create_table(
        "node_state",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("allocator", sa.Text, nullable=False),
        sa.Column("shared_state", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_node_state"),
    )


def downgrade() -> None:
    for table in ("node_state", "holding", "node", "host_partition", "partitioning"):
        op.drop_table(table)
