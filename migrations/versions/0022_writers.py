"""Who writes: the last batch of each writer, and whose run it is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("daemon_run", sa.Column("writer", sa.Text, nullable=False, server_default=""))
    batch = op.get_bind().execute(sa.text("SELECT batch FROM last_batch")).scalar()
    op.drop_table("last_batch")
    table = op.create_table(
        "last_batch",
        sa.Column("writer", sa.Text, nullable=False),
        sa.Column("batch", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("writer", name="pk_last_batch"),
    )
    if batch is not None:
        op.bulk_insert(table, [{"writer": "", "batch": batch}])


def downgrade() -> None:
    batch = op.get_bind().execute(sa.text("SELECT batch FROM last_batch WHERE writer = ''")).scalar()
    op.drop_table("last_batch")
    table = op.create_table(
        "last_batch",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("batch", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_last_batch"),
        sa.CheckConstraint("id = 1", name=op.f("ck_last_batch_single")),
    )
    if batch is not None:
        op.bulk_insert(table, [{"id": 1, "batch": batch}])
    op.drop_column("daemon_run", "writer")
