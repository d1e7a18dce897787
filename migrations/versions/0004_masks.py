"""What of a page differs at every fetch, and since when that is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "mask",
        sa.Column("site_id", Id, autoincrement=False, nullable=False),
        sa.Column("mask", sa.LargeBinary, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_mask_site_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("site_id", name="pk_mask"),
    )


def downgrade() -> None:
    op.drop_table("mask")
