"""Reads of changes: what was told of each site, half-lives learned from it, and the reports that were taken."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "site_reads",
        sa.Column("site_id", _Id, autoincrement=False, nullable=False),
        sa.Column("reads", _Id, nullable=False, server_default="0"),
        sa.Column("changes", _Id, nullable=False, server_default="0"),
        sa.Column("newest_id", _Id, nullable=False, server_default="0"),
        sa.Column("last_read_at", sa.Double),
        sa.Column("open_change", sa.Text),
        sa.Column("statistics", sa.LargeBinary),
        sa.Column("precision", sa.Double, nullable=False, server_default="0"),
        sa.Column("weighted", sa.Double, nullable=False, server_default="0"),
        sa.Column("half_life", sa.Double),
        sa.Column("half_life_low", sa.Double),
        sa.Column("half_life_high", sa.Double),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_site_reads_site_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("site_id", name="pk_site_reads"),
    )
    op.create_table(
        "interest",
        sa.Column("site_id", _Id, autoincrement=False, nullable=False),
        sa.Column("learned_half_life", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_interest_site_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("site_id", name="pk_interest"),
    )
    op.create_table(
        "read_report",
        sa.Column("report", sa.Text, nullable=False),
        sa.Column("received_at", sa.Double, nullable=False),
        sa.Column("reads", _Id, nullable=False, server_default="0"),
        sa.Column("unknown_sites", _Id, nullable=False, server_default="0"),
        sa.Column("before_changes", _Id, nullable=False, server_default="0"),
        sa.Column("other_changes", _Id, nullable=False, server_default="0"),
        sa.Column("between_polls", _Id, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("report", name="pk_read_report"),
    )
    op.create_index("ix_read_report_received_at", "read_report", ["received_at"])


def downgrade() -> None:
    op.drop_table("read_report")
    op.drop_table("interest")
    op.drop_table("site_reads")
