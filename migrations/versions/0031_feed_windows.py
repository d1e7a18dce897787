"""What feeds show: how many items, and what else `model.FeedWindow` says of them, as JSON."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("site_state", sa.Column("items_shown", sa.Double))
    op.add_column("site_state", sa.Column("feed_window", sa.Text))


def downgrade() -> None:
    op.drop_column("site_state", "feed_window")
    op.drop_column("site_state", "items_shown")
