"""When the poll that found a change began; NULL: at `detected_at`, which is when its answer was there since."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("change", sa.Column("poll_at", sa.Double))


def downgrade() -> None:
    op.execute("UPDATE change SET detected_at = poll_at WHERE poll_at IS NOT NULL")
    op.drop_column("change", "poll_at")
