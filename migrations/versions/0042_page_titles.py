"""What a page or feed calls itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("site_text", sa.Column("page_title", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("site_text", "page_title")
