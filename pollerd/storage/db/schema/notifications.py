"""Channels, rules, what is to be sent and what was."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, Index, Integer, LargeBinary, Table, Text, UniqueConstraint, true

from pollerd.storage.db.schema.base import Id, id_column, metadata, partial_index, site_id_column

# Where messages go. `settings`: JSON without secrets; `secrets`: JSON, encrypted (see `encryption`). `origin`: "api",
# or "file": the configuration holds it. `probe_at`: when a paused channel is tried once.
channel = Table(
    "channel",
    metadata,
    id_column(),
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

# What is told of, on which channels. `settings`: JSON; "channels" in it has the names of channels.
rule = Table(
    "rule",
    metadata,
    id_column(),
    Column("name", Text, nullable=False, unique=True),
    Column("settings", Text, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("muted_until", Double),
    Column("origin", Text, nullable=False, server_default="api"),
    Column("created_at", Double, nullable=False),
    Column("changed_at", Double, nullable=False),
    sqlite_autoincrement=True,
)

# A failure that a rule told of and that goes on. No foreign key to the rule: a rule deleted while a poll is committed
# must not refuse that poll.
incident = Table(
    "incident",
    metadata,
    Column("rule_id", Id, primary_key=True, autoincrement=False),
    site_id_column(primary_key=True),
    Column("id", Text, nullable=False),
    Column("since", Double, nullable=False),
    Index(None, "site_id"),
)

# Events that are told, each once a channel. Nothing refers to sites, rules and channels: what happened is told even if
# one of them is gone meanwhile; `url` is the site's at that time. `waits_since`: when it was first to be sent; resent
# ones start anew. `message_id`: the message that it went into, and that every attempt sends whole. `ended_at` NULL: it
# is open.
outbox = Table(
    "outbox",
    metadata,
    id_column(),
    Column("event_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("rule_id", Id, nullable=False),
    Column("channel_id", Id, nullable=False),
    Column("site_id", Id),
    Column("url", Text),
    Column("change_id", Id),
    Column("selection", Text),
    Column("data", Text, nullable=False, server_default="{}"),
    Column("digest", Text, nullable=False, server_default=""),
    Column("waits_since", Double, nullable=False),
    Column("due_at", Double, nullable=False),
    Column("state", Text, nullable=False, server_default="waiting"),
    Column("message_id", Text),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("last_detail", Text, nullable=False, server_default=""),
    Column("ended_at", Double),
    UniqueConstraint("event_id", "channel_id"),
    # What is to be sent next: alone or in a group, in a digest, once more.
    partial_index(None, "channel_id", "digest", "id", where="ended_at IS NULL AND message_id IS NULL"),
    partial_index(
        "ix_outbox_digest_due",
        "channel_id",
        "due_at",
        where="ended_at IS NULL AND message_id IS NULL AND digest <> ''",
    ),
    partial_index("ix_outbox_again", "channel_id", "due_at", where="ended_at IS NULL AND message_id IS NOT NULL"),
    # What holds it up: earlier ones of its site.
    partial_index(None, "channel_id", "site_id", "id", where="ended_at IS NULL AND digest = ''"),
    partial_index("ix_outbox_dead", "channel_id", "id", where="state = 'dead'"),
    partial_index(None, "message_id", where="message_id IS NOT NULL"),
    partial_index(None, "change_id", where="change_id IS NOT NULL"),
    partial_index(None, "site_id", "id", where="site_id IS NOT NULL"),
    partial_index(None, "ended_at", where="ended_at IS NOT NULL"),
    sqlite_autoincrement=True,
)

# The delivery log. `events`: how many the message told of; `status`: HTTP or SMTP code; `duration` in seconds.
attempt = Table(
    "attempt",
    metadata,
    id_column(),
    Column("at", Double, nullable=False),
    Column("channel_id", Id, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("events", Integer, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("status", Integer),
    Column("detail", Text, nullable=False, server_default=""),
    Column("duration", Double, nullable=False),
    Index(None, "at"),
    Index(None, "channel_id", "id"),
    Index(None, "message_id"),
    sqlite_autoincrement=True,
)
