"""The tables of notifications: channels, rules, the outbox, attempts, incidents."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
    true,
)

from pollerd.storage.db.schema import metadata

Id = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    return Column("id", Id, primary_key=True, autoincrement=True)


# Where events are told. `settings`: JSON without secrets; `secrets`: encrypted; `origin`: "api", or "file" for one that
# the list of sites names. `paused_at`: its receiver refuses us; `probe_at`: when it is tried again.
channel = Table(
    "channel",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("settings", Text, nullable=False),
    Column("secrets", LargeBinary),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("origin", Text, nullable=False, server_default="api"),
    Column("created_at", Double, nullable=False),
    Column("changed_at", Double, nullable=False),
    Column("paused_at", Double),
    Column("paused_reason", Text, nullable=False, server_default=""),
    Column("probe_at", Double),
    Column("last_sent_at", Double),
    Column("last_error", Text, nullable=False, server_default=""),
    sqlite_autoincrement=True,
)

rule = Table(
    "rule",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("settings", Text, nullable=False),
    Column("origin", Text, nullable=False, server_default="api"),
    Column("created_at", Double, nullable=False),
    Column("changed_at", Double, nullable=False),
    sqlite_autoincrement=True,
)

# What is to be told, and what was. A site or rule may be gone before its notice is told: neither is a foreign key, and
# `data` has what the message needs. `message_id`: the message that it is part of, from the first attempt on;
# `since`: when that was.
outbox = Table(
    "outbox",
    metadata,
    _id(),
    Column("event_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("site_id", Id),
    Column("change_id", Id),
    Column("data", Text, nullable=False, server_default="{}"),
    Column("rule_id", Id, nullable=False),
    Column("channel_id", Id, ForeignKey("channel.id", ondelete="CASCADE"), nullable=False),
    Column("state", Text, nullable=False, server_default="waiting"),
    Column("due_at", Double, nullable=False),
    Column("digest", Text, nullable=False, server_default=""),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("message_id", Text),
    Column("since", Double),
    Column("last_detail", Text, nullable=False, server_default=""),
    Column("ended_at", Double),
    UniqueConstraint("event_id", "channel_id"),
    Index(
        "ix_outbox_open",
        "channel_id",
        "state",
        "id",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
    Index(None, "change_id"),
    Index(None, "message_id"),
    Index(None, "ended_at"),
    sqlite_autoincrement=True,
)

# One attempt to send one message. `events`: how many it tells of.
attempt = Table(
    "attempt",
    metadata,
    _id(),
    Column("at", Double, nullable=False),
    Column("channel_id", Id, ForeignKey("channel.id", ondelete="CASCADE"), nullable=False),
    Column("message_id", Text, nullable=False),
    Column("events", Integer, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("status", Integer),
    Column("detail", Text, nullable=False, server_default=""),
    Column("duration", Double, nullable=False),
    Index(None, "channel_id", "id"),
    Index(None, "message_id"),
    Index(None, "at"),
    sqlite_autoincrement=True,
)

# A site that fails, of which a rule told: until it tells that the site answers again.
incident = Table(
    "incident",
    metadata,
    Column("rule_id", Id, ForeignKey("rule.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("site_id", Id, ForeignKey("site.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("since", Double, nullable=False),
    Index(None, "site_id"),
)
