"""Screenshots of rendered pages, with the content that they show."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "screenshot",
        sa.Column("content_id", Id, autoincrement=False, nullable=False),
        sa.Column("png", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("content_id", name="pk_screenshot"),
        sa.ForeignKeyConstraint(["content_id"], ["content.id"], name="fk_screenshot_content_id", ondelete="CASCADE"),
    )


def downgrade() -> None:
    # Sizes are those of the contents alone again; `content_total` is an upper bound, and summed up by the daemon.
    counted = "content.id <= (SELECT counted_through FROM content_total)"
    of_site = f"content.site_id = content_use.site_id AND {counted}"
    pictures = f"FROM screenshot JOIN content ON content.id = content_id WHERE {of_site}"
    op.execute(f"UPDATE content_use SET bytes = bytes - coalesce((SELECT sum(length(png)) {pictures}), 0)")
    op.execute(
        "UPDATE content SET size = size - (SELECT length(png) FROM screenshot WHERE content_id = content.id)"
        " WHERE id IN (SELECT content_id FROM screenshot)"
    )
    op.drop_table("screenshot")
