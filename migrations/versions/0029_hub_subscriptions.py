"""Subscriptions at WebSub hubs; where signal sources come from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "hub_subscription",
        sa.Column("id", _Id, autoincrement=True, nullable=False),
        sa.Column("source_id", _Id),
        sa.Column("hub", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("callback", sa.Text, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("asked_at", sa.Double),
        sa.Column("verified_at", sa.Double),
        sa.Column("lease_ends_at", sa.Double),
        sa.Column("last_received_at", sa.Double),
        sa.Column("longest_gap", sa.Double, nullable=False, server_default="0"),
        sa.Column("received", _Id, nullable=False, server_default="0"),
        sa.Column("last_detail", sa.Text, nullable=False, server_default=""),
        sa.ForeignKeyConstraint(
            ["source_id"], ["signal_source.id"], name="fk_hub_subscription_source_id", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_hub_subscription"),
        sa.UniqueConstraint("source_id", name="uq_hub_subscription_source_id"),
        sa.UniqueConstraint("callback", name="uq_hub_subscription_callback"),
        sqlite_autoincrement=True,
    )
    op.add_column("signal_source", sa.Column("origin", sa.Text, nullable=False, server_default="api"))
    op.add_column("signal_source", sa.Column("index_id", _Id))
    op.add_column("signal_source", sa.Column("made_site", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("signal_source", "made_site")
    op.drop_column("signal_source", "index_id")
    op.drop_column("signal_source", "origin")
    op.drop_table("hub_subscription")
    op.execute("DELETE FROM api_token WHERE role = 'signals'")
