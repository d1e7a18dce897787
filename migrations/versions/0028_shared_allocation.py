"""The allocation of all nodes: shadows, who has joined, and when a node's state in common was stored."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("allocation", sa.Column("shadows", sa.Text, nullable=False, server_default=""))
    op.add_column("node", sa.Column("joined", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("node_state", sa.Column("saved_at", sa.Double, nullable=False, server_default="0"))
    # Those that are there are not to be taken for long gone.
    op.execute(sa.update(sa.table("node_state", sa.column("saved_at"))).values(saved_at=time.time()))


def downgrade() -> None:
    op.drop_column("node_state", "saved_at")
    op.drop_column("node", "joined")
    op.drop_column("allocation", "shadows")
