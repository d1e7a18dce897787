"""Up to which poll the stored state in common has learned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("allocation", sa.Column("learned_through", Id))


def downgrade() -> None:
    op.drop_column("allocation", "learned_through")
