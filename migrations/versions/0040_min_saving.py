"""How much sooner a poll has to bring news for a site to be polled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("site", sa.Column("min_saving", sa.Double))


def downgrade() -> None:
    op.drop_column("site", "min_saving")
