"""What polls brought: polls, contents, changes, values of selections."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

from pollerd.storage.db.schema.base import HOT_FILLFACTOR, Id, id_column, metadata, site_id_column

# A selection of a site, for sites that have any. `version` is that of its settings: another one begins anew. `readings`
# and `announced`: its values as last read, and at the last change that mattered, as JSON. Neither content is a foreign
# key: both stay while they are here.
selection_state = Table(
    "selection_state",
    metadata,
    site_id_column(primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", LargeBinary, nullable=False),
    Column("fingerprint", LargeBinary),
    Column("media", Text),
    Column("items", LargeBinary),
    Column("mask", LargeBinary),
    # Whether a proof has shown what of it is noise.
    Column("proven", Boolean, nullable=False, server_default=false()),
    Column("content_id", Id),
    Column("announced_id", Id),
    Column("readings", Text, nullable=False, server_default="{}"),
    Column("announced", Text, nullable=False, server_default="{}"),
    Column("missing", Text, nullable=False, server_default=""),
    # Whether the edit since its base was read is to keep it.
    Column("keeps_base", Boolean, nullable=False, server_default=false()),
    postgresql_with={"fillfactor": HOT_FILLFACTOR},
)

# A value of a selection each time it was read differently. `text`: as written for people and programs; `problem`: why
# it could not be read.
reading = Table(
    "reading",
    metadata,
    id_column(),
    site_id_column(),
    Column("selection", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("text", Text, nullable=False),
    Column("number", Double),
    Column("moment", Double),
    Column("currency", Text),
    Column("problem", Text, nullable=False, server_default=""),
    Index(None, "site_id", "id"),
    sqlite_autoincrement=True,
)

# On PostgreSQL a partition for each UTC day (see `poll_days`), whose key is (id, at), and no index of times: a day is
# found by its partition.
poll = Table(
    "poll",
    metadata,
    id_column(),
    site_id_column(),
    Column("at", Double, nullable=False),
    Column("elapsed", Double),
    Column("outcome", Text, nullable=False),
    Column("status", Integer),
    Column("duration", Double, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("changed", Boolean, nullable=False),
    Column("age", Double),
    Column("count", BigInteger),
    Column("detail", Text, nullable=False, server_default=""),
    Column("redirects", Text),
    # Of feeds: `at_least` and `span` of `model.Evidence`, from which allocators that count items learn.
    Column("at_least", BigInteger),
    Column("span", Double),
    Index(None, "site_id", "id"),
    Index(None, "at").ddl_if(dialect="sqlite"),
    sqlite_autoincrement=True,
    postgresql_partition_by="RANGE (at)",
)

# `size` is the compressed size, with that of its screenshot. `body` comes nearly last, so that reading the rest of a
# row skips its pages; only `base_id` follows, the base of a delta-encoded content, which takes no space in the row of a
# long one (see `compression`).
content = Table(
    "content",
    metadata,
    id_column(),
    site_id_column(),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("media", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("first_seen_at", Double, nullable=False),
    Column("last_seen_at", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("base_id", Id),
    UniqueConstraint("site_id", "fingerprint"),
    # A site's contents in order of their last finding, and their bases, without reading rows.
    Index(None, "site_id", "last_seen_at", "base_id"),
    sqlite_autoincrement=True,
)

# A PNG of the page at the poll that found a content first: a table of its own, so that contents are read without it.
screenshot = Table(
    "screenshot",
    metadata,
    Column("content_id", Id, ForeignKey("content.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)

# What a site keeps, for pruning (see `content_retention`), counted later: commits do not touch it. `rank` equals
# `contents`, or 0 if none of them can be pruned. `due_at`: when the oldest content beyond the newest `keep_contents`
# was last current; it is pruned when this is older than `content_retention`; NULL: there is none. Differences of
# changes found up to `capped_through` were pruned for the cap, those up to `expired_through` by age.
content_use = Table(
    "content_use",
    metadata,
    site_id_column(primary_key=True),
    Column("contents", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("due_at", Double),
    Column("capped_through", Double),
    Column("expired_through", Double),
    Index(None, "rank"),
    Index(None, "due_at"),
)

# All contents with ids up to `counted_through` are counted in `content_use`. `bytes` is their total, including sites
# deleted since it was last summed: an upper bound.
content_total = Table(
    "content_total",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("counted_through", Id, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

# The contents of a change may be pruned. Ids are never reused, so a pruned one is simply not found: reading joins, and
# writing saves two indexes and a foreign key check in each direction.
change = Table(
    "change",
    metadata,
    id_column(),
    site_id_column(),
    Column("detected_at", Double, nullable=False),
    Column("previous_poll_at", Double),
    Column("kind", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("before_content_id", Id),
    Column("after_content_id", Id),
    # The selection in which it was found; NULL: the site has none, so the whole page.
    Column("selection", Text),
    # The verdict of its conditions.
    Column("matters", Boolean, nullable=False, server_default=true()),
    Column("why", Text, nullable=False, server_default=""),
    # When the poll that found it began: `at` of that poll. NULL: at `detected_at`, as earlier versions wrote it.
    Column("poll_at", Double),
    # A site's changes in either order, without sorting.
    Index(None, "site_id", "id"),
    Index(None, "detected_at"),
    sqlite_autoincrement=True,
)

# What was expected of the minutes (since the epoch) in which the daemon ran: changes, in so many of its seconds.
yield_minute = Table(
    "yield_minute",
    metadata,
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("seconds", Double, nullable=False),
    Column("scheduled", Double, nullable=False),
    Column("uniform", Double, nullable=False),
    Column("best", Double, nullable=False),
)

# Ids of the changes that a reader has seen, as ranges that neither touch nor overlap.
seen_range = Table(
    "seen_range",
    metadata,
    Column("reader", Text, primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
)
