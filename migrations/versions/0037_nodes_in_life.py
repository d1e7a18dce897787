"""What nodes know of one another: the schema of each, who is drained, sizes of partitions, what each spends."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("node", sa.Column("revision", sa.Text))
    op.create_table(
        "drained_node",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_drained_node"),
    )
    op.create_table(
        "partition_size",
        sa.Column("partition", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("sites", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("partition", name="pk_partition_size"),
    )
    op.create_table(
        "schema_support",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("oldest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schema_support"),
        sa.CheckConstraint("id = 1", name="ck_schema_support_single"),
    )
    for name in ("able", "spent", "clock_ahead"):
        op.add_column("budget_grant", sa.Column(name, sa.Double))


def downgrade() -> None:
    for name in ("clock_ahead", "spent", "able"):
        op.drop_column("budget_grant", name)
    op.drop_table("schema_support")
    op.drop_table("partition_size")
    op.drop_table("drained_node")
    op.drop_column("node", "revision")
