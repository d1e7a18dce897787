"""Signal sources, what they said, and WebSub hubs."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, ForeignKey, Index, Integer, LargeBinary, Table, Text, false

from pollerd.storage.db.schema.base import Id, id_column, metadata, site_id_column

# A site whose polls say when other pages change, or (without a site) a name under which programs report changes.
# `origin`: "api", "file" or "index"; `index_id`: the source whose index of sitemaps it stands in, `made_site`: whether
# its site was added for that.
signal_source = Table(
    "signal_source",
    metadata,
    id_column(),
    Column("kind", Text, nullable=False),
    Column("site_id", Id, ForeignKey("site.id", ondelete="CASCADE"), unique=True),
    Column("name", Text, unique=True),
    Column("hosts", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("last_read_at", Double),
    Column("last_signal_at", Double),
    Column("signals", Id, nullable=False, server_default="0"),
    Column("last_detail", Text, nullable=False, server_default=""),
    Column("origin", Text, nullable=False, server_default="api"),
    Column("index_id", Id),
    Column("made_site", Boolean, nullable=False, server_default=false()),
    sqlite_autoincrement=True,
)

# What a signal source said last of a site. `said`: the date as it stood there, null: none. `signalled_at`: when this
# was last news; it waits for a poll of the site as long as it is later than the last one.
signal_page = Table(
    "signal_page",
    metadata,
    Column("source_id", Id, ForeignKey("signal_source.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    site_id_column(primary_key=True),
    Column("said", Double),
    Column("signalled_at", Double),
    Column("signals", Id, nullable=False, server_default="0"),
    Index(None, "site_id"),
)

# What is asked of a WebSub hub. `source_id`: null after the source is gone, or offers another hub; `callback`: the end
# of the URL that the hub calls; `secret`: encrypted; `next_at`: when something is to be done.
hub_subscription = Table(
    "hub_subscription",
    metadata,
    id_column(),
    Column("source_id", Id, ForeignKey("signal_source.id", ondelete="SET NULL"), unique=True),
    Column("hub", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("callback", Text, nullable=False, unique=True),
    Column("secret", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("next_at", Double, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("asked_at", Double),
    Column("verified_at", Double),
    Column("lease_ends_at", Double),
    Column("last_received_at", Double),
    Column("longest_gap", Double, nullable=False, server_default="0"),
    Column("received", Id, nullable=False, server_default="0"),
    Column("last_detail", Text, nullable=False, server_default=""),
    sqlite_autoincrement=True,
)
