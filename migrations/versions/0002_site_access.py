"""A site's own headers, credentials and proxy, sealed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("site", sa.Column("access", sa.LargeBinary))


def downgrade() -> None:
    op.drop_column("site", "access")
