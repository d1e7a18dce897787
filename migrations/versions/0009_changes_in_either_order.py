"""A site's changes are read in either order: their index names the id, as that of polls does."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_change_site_id_id", "change", ["site_id", "id"])
    op.drop_index("ix_change_site_id", "change")


def downgrade() -> None:
    op.create_index("ix_change_site_id", "change", ["site_id"])
    op.drop_index("ix_change_site_id_id", "change")
