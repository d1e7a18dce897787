"""The budget that several nodes share, and each one's grant of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "shared_budget",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("budget", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_shared_budget"),
    )
    op.create_table(
        "budget_grant",
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("reserved", sa.Double, nullable=False),
        sa.Column("spending", sa.Double, nullable=False),
        sa.Column("target", sa.Double),
        sa.Column("price", sa.Double, nullable=False),
        sa.Column("cost", sa.Double, nullable=False),
        sa.Column("curve", sa.LargeBinary),
        sa.Column("reported_at", sa.Double, nullable=False),
        sa.Column("gone_at", sa.Double),
        sa.PrimaryKeyConstraint("node", name="pk_budget_grant"),
    )


def downgrade() -> None:
    op.drop_table("budget_grant")
    op.drop_table("shared_budget")
