"""Copies of deleted rules and channels, and of marks of readers, which are kept for a day for undoing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "kept_copy",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reader", sa.Text, nullable=False, server_default=""),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("secrets", sa.LargeBinary),
        sa.Column("kept_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_kept_copy"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_kept_copy_kept_at", "kept_copy", ["kept_at"])


def downgrade() -> None:
    op.drop_table("kept_copy")
