"""By which version of the reader a fingerprint was made, so that what is read otherwise since is no change; why pages
have no text."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

_TABLES = ("site_state", "selection_state")


def upgrade() -> None:
    for table in _TABLES:
        op.add_column(table, sa.Column("reader", sa.SmallInteger))
    op.add_column("site_state", sa.Column("no_text", sa.Text))


def downgrade() -> None:
    op.drop_column("site_state", "no_text")
    for table in _TABLES:
        op.drop_column(table, "reader")
