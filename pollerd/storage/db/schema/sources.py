"""Sitemaps and feeds whose pages become sites."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, ForeignKey, Index, Integer, LargeBinary, Table, Text, false

from pollerd.storage.db.schema.base import Id, id_column, metadata, site_id_column

# A sitemap or feed whose pages become sites. `entries`: number of pages in the last reading that was believed; `pace`:
# the learned interval; `documents`: what it was read from, with validators and hashes of pages, for the next reading.
source = Table(
    "source",
    metadata,
    id_column(),
    Column("url", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("weight", Double, nullable=False),
    Column("site_limit", Integer, nullable=False),
    Column("pattern", Text),
    Column("hosts", Text, nullable=False),
    Column("interval", Double),
    Column("most_shrink", Double, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("created_at", Double, nullable=False),
    Column("last_read_at", Double),
    Column("next_read_at", Double),
    Column("pace", Double),
    Column("entries", Integer),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("last_detail", Text, nullable=False, server_default=""),
    Column("documents", LargeBinary),
    sqlite_autoincrement=True,
)

# Which page of a source is which site. The URL is that of the list: a user may have moved the site. `added`: the source
# added the site, so that it may pause it. `paused`: it did, and no user has paused or resumed the site since.
source_site = Table(
    "source_site",
    metadata,
    Column("source_id", Id, ForeignKey("source.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("url", Text, primary_key=True),
    site_id_column(),
    Column("state", Text, nullable=False),
    Column("since", Double, nullable=False),
    Column("added", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Index(None, "site_id"),
    Index(None, "source_id", "state", "site_id"),
)
