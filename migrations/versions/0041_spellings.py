"""How the URL of a site is sent, if in another percent-encoding than it is stored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("site", sa.Column("spelling", sa.Text))


def downgrade() -> None:
    op.drop_column("site", "spelling")
