"""Hosts that several nodes ask, a row each, and questions of nodes to one another with their answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "shared_host",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("owner", _Id),
        sa.Column("holder", _Id),
        sa.Column("held_until", sa.Double, nullable=False, server_default="0"),
        sa.Column("next_free", sa.Double, nullable=False, server_default="0"),
        sa.Column("gap", sa.Double, nullable=False, server_default="0"),
        sa.Column("paused_until", sa.Double, nullable=False, server_default="0"),
        sa.Column("waiting", _Id),
        sa.Column("waiting_until", sa.Double, nullable=False, server_default="0"),
        sa.Column("wanted_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_shared_host"),
    )
    op.create_table(
        "node_question",
        sa.Column("id", _Id, autoincrement=True, nullable=False),
        sa.Column("node_id", _Id, nullable=False),
        sa.Column("question", sa.LargeBinary, nullable=False),
        sa.Column("answer", sa.LargeBinary),
        sa.Column("asked_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_node_question"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    op.drop_table("node_question")
    op.drop_table("shared_host")
