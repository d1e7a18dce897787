"""How many new items of a feed each poll saw, and within how many seconds they came by their dates; else NULL."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("poll", sa.Column("at_least", sa.BigInteger))
    op.add_column("poll", sa.Column("span", sa.Double))


def downgrade() -> None:
    op.drop_column("poll", "span")
    op.drop_column("poll", "at_least")
