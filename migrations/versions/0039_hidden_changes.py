"""How many polls of a site found nothing because all that differed is masked as noise."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("site_state", sa.Column("hidden_changes", sa.BigInteger, nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("site_state", "hidden_changes")
