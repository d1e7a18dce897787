"""How likely a change must be for a site to be polled; whether, and for how long, it is left alone as it asks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("site", sa.Column("min_yield", sa.Double))
    op.add_column("site", sa.Column("respect_ttl", sa.Boolean))
    op.add_column("site_state", sa.Column("ttl", sa.Double))


def downgrade() -> None:
    op.drop_column("site_state", "ttl")
    op.drop_column("site", "respect_ttl")
    op.drop_column("site", "min_yield")
