"""Channels, rules, incidents, the outbox and the delivery log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
FREE = "ended_at IS NULL AND message_id IS NULL"
INDEXES = [
    ("ix_outbox_channel_id_digest_id", ["channel_id", "digest", "id"], FREE),
    ("ix_outbox_digest_due", ["channel_id", "due_at"], f"{FREE} AND digest <> ''"),
    ("ix_outbox_again", ["channel_id", "due_at"], "ended_at IS NULL AND message_id IS NOT NULL"),
    ("ix_outbox_channel_id_site_id_id", ["channel_id", "site_id", "id"], "ended_at IS NULL AND digest = ''"),
    ("ix_outbox_dead", ["channel_id", "id"], "state = 'dead'"),
    ("ix_outbox_message_id", ["message_id"], "message_id IS NOT NULL"),
    ("ix_outbox_change_id", ["change_id"], "change_id IS NOT NULL"),
    ("ix_outbox_site_id_id", ["site_id", "id"], "site_id IS NOT NULL"),
    ("ix_outbox_ended_at", ["ended_at"], "ended_at IS NOT NULL"),
]


def upgrade() -> None:
    op.create_table(
        "channel",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("secrets", sa.LargeBinary),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("origin", sa.Text, nullable=False, server_default="api"),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
        sa.Column("paused_at", sa.Double),
        sa.Column("paused_reason", sa.Text, nullable=False, server_default=""),
        sa.Column("probe_at", sa.Double),
        sa.Column("last_sent_at", sa.Double),
        sa.Column("last_error", sa.Text, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name="pk_channel"),
        sa.UniqueConstraint("name", name="uq_channel_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "rule",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("muted_until", sa.Double),
        sa.Column("origin", sa.Text, nullable=False, server_default="api"),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rule"),
        sa.UniqueConstraint("name", name="uq_rule_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "incident",
        sa.Column("rule_id", Id, autoincrement=False, nullable=False),
        sa.Column("site_id", Id, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("rule_id", "site_id", name="pk_incident"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_incident_site_id", ondelete="CASCADE"),
    )
    op.create_index("ix_incident_site_id", "incident", ["site_id"])
    op.create_table(
        "outbox",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("rule_id", Id, nullable=False),
        sa.Column("channel_id", Id, nullable=False),
        sa.Column("site_id", Id),
        sa.Column("url", sa.Text),
        sa.Column("change_id", Id),
        sa.Column("selection", sa.Text),
        sa.Column("data", sa.Text, nullable=False, server_default="{}"),
        sa.Column("digest", sa.Text, nullable=False, server_default=""),
        sa.Column("waits_since", sa.Double, nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False, server_default="waiting"),
        sa.Column("message_id", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("last_detail", sa.Text, nullable=False, server_default=""),
        sa.Column("ended_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("event_id", "channel_id", name="uq_outbox_event_id_channel_id"),
        sqlite_autoincrement=True,
    )
    for name, columns, where in INDEXES:
        op.create_index(name, "outbox", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
    op.create_table(
        "attempt",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("channel_id", Id, nullable=False),
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("events", sa.Integer, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
        sa.Column("duration", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attempt"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_attempt_at", "attempt", ["at"])
    op.create_index("ix_attempt_channel_id_id", "attempt", ["channel_id", "id"])
    op.create_index("ix_attempt_message_id", "attempt", ["message_id"])


def downgrade() -> None:
    for table in ("attempt", "outbox", "incident", "rule", "channel"):
        op.drop_table(table)
