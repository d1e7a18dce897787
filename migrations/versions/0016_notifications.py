"""Notifications: channels, rules, the outbox, attempts, incidents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _named(table: str) -> tuple[sa.Column[object] | sa.Constraint, ...]:
    return (
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("name", name=f"uq_{table}_name"),
    )


def upgrade() -> None:
    op.create_table(
        "channel",
        *_named("channel"),
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
        sqlite_autoincrement=True,
    )
    op.create_table(
        "rule",
        *_named("rule"),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False, server_default="api"),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "outbox",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("site_id", Id),
        sa.Column("change_id", Id),
        sa.Column("data", sa.Text, nullable=False, server_default="{}"),
        sa.Column("rule_id", Id, nullable=False),
        sa.Column("channel_id", Id, nullable=False),
        sa.Column("state", sa.Text, nullable=False, server_default="waiting"),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.Column("digest", sa.Text, nullable=False, server_default=""),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("message_id", sa.Text),
        sa.Column("since", sa.Double),
        sa.Column("last_detail", sa.Text, nullable=False, server_default=""),
        sa.Column("ended_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("event_id", "channel_id", name="uq_outbox_event_id_channel_id"),
        sa.ForeignKeyConstraint(["channel_id"], ["channel.id"], name="fk_outbox_channel_id", ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    unended = sa.text("ended_at IS NULL")
    op.create_index(
        "ix_outbox_open", "outbox", ["channel_id", "state", "id"], sqlite_where=unended, postgresql_where=unended
    )
    for column in ("change_id", "message_id", "ended_at"):
        op.create_index(f"ix_outbox_{column}", "outbox", [column])
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
        sa.ForeignKeyConstraint(["channel_id"], ["channel.id"], name="fk_attempt_channel_id", ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_attempt_channel_id_id", "attempt", ["channel_id", "id"])
    for column in ("message_id", "at"):
        op.create_index(f"ix_attempt_{column}", "attempt", [column])
    op.create_table(
        "incident",
        sa.Column("rule_id", Id, autoincrement=False, nullable=False),
        sa.Column("site_id", Id, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("rule_id", "site_id", name="pk_incident"),
        sa.ForeignKeyConstraint(["rule_id"], ["rule.id"], name="fk_incident_rule_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_incident_site_id", ondelete="CASCADE"),
    )
    op.create_index("ix_incident_site_id", "incident", ["site_id"])


def downgrade() -> None:
    for table in ("incident", "attempt", "outbox", "rule", "channel"):
        op.drop_table(table)
