"""When readers looked at what is new, and what they dismissed; sites without text are found by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

_WITHOUT_TEXT = sa.text("no_text IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "reader_mark",
        sa.Column("reader", sa.Text, nullable=False),
        sa.Column("looked_at", sa.Double),
        sa.Column("looked_before", sa.Double),
        sa.Column("steps_dismissed", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("reader", name="pk_reader_mark"),
    )
    op.create_index(
        "ix_site_state_no_text",
        "site_state",
        ["site_id"],
        sqlite_where=_WITHOUT_TEXT,
        postgresql_where=_WITHOUT_TEXT,
    )


def downgrade() -> None:
    op.drop_index("ix_site_state_no_text", "site_state")
    op.drop_table("reader_mark")
