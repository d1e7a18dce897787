"""Sitemaps and feeds as sources of sites."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "source",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("site_limit", sa.Integer, nullable=False),
        sa.Column("pattern", sa.Text),
        sa.Column("hosts", sa.Text, nullable=False),
        sa.Column("interval", sa.Double),
        sa.Column("most_shrink", sa.Double, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("last_read_at", sa.Double),
        sa.Column("next_read_at", sa.Double),
        sa.Column("pace", sa.Double),
        sa.Column("entries", sa.Integer),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("last_detail", sa.Text, nullable=False, server_default=""),
        sa.Column("documents", sa.LargeBinary),
        sa.PrimaryKeyConstraint("id", name="pk_source"),
        sa.UniqueConstraint("url", name="uq_source_url"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "source_site",
        sa.Column("source_id", Id, autoincrement=False, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("site_id", Id, autoincrement=False, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("added", sa.Boolean, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("source_id", "url", name="pk_source_site"),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name="fk_source_site_source_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_source_site_site_id", ondelete="CASCADE"),
    )
    op.create_index("ix_source_site_site_id", "source_site", ["site_id"])
    op.create_index("ix_source_site_source_id_state_site_id", "source_site", ["source_id", "state", "site_id"])


def downgrade() -> None:
    op.drop_table("source_site")
    op.drop_table("source")
