"""Pauses by hand: what an operator last did to a host, and the sites with a tag in their order."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "host_override",
        sa.Column("host_id", Id, autoincrement=False, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("until", sa.Double),
        sa.PrimaryKeyConstraint("host_id", name="pk_host_override"),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name="fk_host_override_host_id", ondelete="CASCADE"),
    )

    op.create_index("ix_site_tag_tag_site_id", "site_tag", ["tag", "site_id"])
    op.drop_index("ix_site_tag_tag", "site_tag")


def downgrade() -> None:
    op.create_index("ix_site_tag_tag", "site_tag", ["tag"])
    op.drop_index("ix_site_tag_tag_site_id", "site_tag")
    op.drop_table("host_override")
