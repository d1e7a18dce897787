"""The secret by which the nodes of a database sign what they ask of one another."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cluster_secret",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("encrypted", sa.Boolean, nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_cluster_secret_single")),
    )


def downgrade() -> None:
    op.drop_table("cluster_secret")
