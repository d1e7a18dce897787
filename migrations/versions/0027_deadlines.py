"""Deadlines of sites, and the default one: for the objective `deadline`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("site", sa.Column("deadline", sa.Double))
    op.add_column("allocation", sa.Column("deadline", sa.Double))


def downgrade() -> None:
    op.drop_column("allocation", "deadline")
    op.drop_column("site", "deadline")
