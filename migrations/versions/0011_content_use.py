"""What each site keeps of contents is counted, so that they are kept by age and the busiest give way first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_index("ix_content_site_id_last_seen_at_base_id", "content", ["site_id", "last_seen_at", "base_id"])
    op.drop_index("ix_content_last_seen_at_size", "content")
    op.create_table(
        "content_use",
        sa.Column("site_id", Id, autoincrement=False, nullable=False),
        sa.Column("contents", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Double),
        sa.Column("capped_through", sa.Double),
        sa.Column("expired_through", sa.Double),
        sa.PrimaryKeyConstraint("site_id", name="pk_content_use"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_content_use_site_id", ondelete="CASCADE"),
    )
    op.create_table(
        "content_total",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("counted_through", Id, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_content_total"),
        sa.CheckConstraint("id = 1", name="ck_content_total_single"),
    )
    op.execute(
        "INSERT INTO content_use (site_id, contents, bytes, rank, due_at) "
        "SELECT site_id, count(*), sum(size), count(*), 0 FROM content GROUP BY site_id"
    )
    op.execute(
        "INSERT INTO content_total (id, counted_through, bytes) "
        "SELECT 1, coalesce(max(id), 0), coalesce(sum(size), 0) FROM content"
    )
    op.create_index("ix_content_use_rank", "content_use", ["rank"])
    op.create_index("ix_content_use_due_at", "content_use", ["due_at"])


def downgrade() -> None:
    op.drop_table("content_total")
    op.drop_table("content_use")
    op.create_index("ix_content_last_seen_at_size", "content", ["last_seen_at", "size"])
    op.drop_index("ix_content_site_id_last_seen_at_base_id", "content")
