"""Which words the topic is made of, and since when: what was scored before is to be scored anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("collection", sa.Column("words", sa.Text))
    op.add_column("collection", sa.Column("words_at", sa.Double))


def downgrade() -> None:
    op.drop_column("collection", "words_at")
    op.drop_column("collection", "words")
