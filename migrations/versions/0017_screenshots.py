"""Screenshots of rendered pages, kept with their contents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("site", sa.Column("keep_screenshots", sa.Boolean))
    op.create_table(
        "screenshot",
        sa.Column("content_id", Id, autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("content_id", name="pk_screenshot"),
        sa.ForeignKeyConstraint(["content_id"], ["content.id"], name="fk_screenshot_content_id", ondelete="CASCADE"),
    )


def downgrade() -> None:
    op.drop_table("screenshot")
    op.drop_column("site", "keep_screenshots")
