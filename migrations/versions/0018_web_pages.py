"""What the web pages show: what was expected of each minute, and which changes were seen."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "yield_minute",
        sa.Column("minute", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("scheduled", sa.Double, nullable=False),
        sa.Column("uniform", sa.Double, nullable=False),
        sa.Column("best", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("minute", name="pk_yield_minute"),
    )
    op.create_table(
        "seen_range",
        sa.Column("reader", sa.Text, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("reader", "first", name="pk_seen_range"),
    )


def downgrade() -> None:
    op.drop_table("seen_range")
    op.drop_table("yield_minute")
