"""The tables. Times are epoch seconds as doubles, durations seconds; ids only grow and are never used again."""

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
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only where the key is spelled INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")
# Room on each page lets PostgreSQL rewrite a hot row in place, without touching its indexes.
HOT_FILLFACTOR = 70


def _id() -> Column[int]:
    return Column("id", Id, primary_key=True, autoincrement=True)


def _site_id(primary_key: bool = False) -> Column[int]:
    return Column(
        "site_id",
        Id,
        ForeignKey("site.id", ondelete="CASCADE"),
        primary_key=primary_key,
        autoincrement=False,
        nullable=False,
    )


host = Table(
    "host",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("last_start_at", Double),
    Column("paused_until", Double),
    Column("throttles", Integer, nullable=False, server_default="0"),
    Column("crawl_delay", Double),
    Column("robots_kind", Text),
    Column("robots_at", Double),
    Column("robots_detail", Text, nullable=False, server_default=""),
    Column("robots_body", LargeBinary),
    sqlite_autoincrement=True,
    postgresql_with={"fillfactor": HOT_FILLFACTOR},
)

# What an operator last did to a host's pause. A table of its own: hosts are rewritten by polls, this hardly ever.
host_override = Table(
    "host_override",
    metadata,
    Column("host_id", Id, ForeignKey("host.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("by", Text, nullable=False),
    Column("paused", Boolean, nullable=False),
    # When a pause by hand ends by itself.
    Column("until", Double),
)

site = Table(
    "site",
    metadata,
    _id(),
    Column("url", Text, nullable=False, unique=True),
    Column("host_id", Id, ForeignKey("host.id"), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("weight", Double, nullable=False),
    Column("cost", Double, nullable=False),
    Column("min_interval", Double),
    Column("max_interval", Double),
    Column("min_yield", Double),
    Column("respect_ttl", Boolean),
    Column("half_life", Double),
    Column("settings_changed_at", Double),
    # Headers, credentials and proxy, sealed (see `sealing`); NULL: none.
    Column("access", LargeBinary),
    Index(None, "host_id"),
    sqlite_autoincrement=True,
)

site_tag = Table(
    "site_tag",
    metadata,
    _site_id(primary_key=True),
    Column("tag", Text, primary_key=True),
    Index(None, "tag", "site_id"),
)

# The one row that every poll rewrites. `content_id` is no foreign key: the current content is never pruned, and
# checking it at every poll would cost a lookup each.
site_state = Table(
    "site_state",
    metadata,
    _site_id(primary_key=True),
    Column("state", Text, nullable=False, server_default="active"),
    Column("last_poll_at", Double),
    Column("last_seen_at", Double),
    Column("not_before", Double),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("polls", BigInteger, nullable=False, server_default="0"),
    Column("changes", BigInteger, nullable=False, server_default="0"),
    Column("polls_since_full", Integer, nullable=False, server_default="0"),
    Column("last_outcome", Text),
    Column("last_detail", Text, nullable=False, server_default=""),
    Column("content_id", Id),
    # Bytes, because a server may send any: they are echoed as they came.
    Column("etag", LargeBinary),
    Column("last_modified", LargeBinary),
    Column("content_type", Text),
    Column("fingerprint", LargeBinary),
    Column("raw_fingerprint", LargeBinary),
    Column("media", Text),
    Column("lm_seen", Double),
    Column("lm_good", Integer, nullable=False, server_default="0"),
    Column("lm_bad", Integer, nullable=False, server_default="0"),
    Column("redirect_url", Text),
    Column("redirect_count", Integer, nullable=False, server_default="0"),
    Column("items", LargeBinary),
    Column("ttl", Double),
    postgresql_with={"fillfactor": HOT_FILLFACTOR},
)

learned = Table(
    "learned",
    metadata,
    _site_id(primary_key=True),
    Column("allocator", Text, nullable=False),
    Column("state", LargeBinary, nullable=False),
    postgresql_with={"fillfactor": HOT_FILLFACTOR},
)

# What of a page differs at every fetch (`detection.masks`), and since when that is known (epoch s): what polls before
# then said of changes may be noise. A table of its own: `site_state` is rewritten by every poll, this hardly ever.
mask = Table(
    "mask",
    metadata,
    _site_id(primary_key=True),
    Column("mask", LargeBinary, nullable=False),
    Column("since", Double, nullable=False),
)

poll = Table(
    "poll",
    metadata,
    _id(),
    _site_id(),
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
    Index(None, "site_id", "id"),
    Index(None, "at"),
    sqlite_autoincrement=True,
)

# `size` is the compressed size. `body` stands last, so that reading the rest of a row leaves its pages alone; but for
# `base_id`, the content that a short body leans on, which takes no room in the row of a long one (see `compression`).
content = Table(
    "content",
    metadata,
    _id(),
    _site_id(),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("media", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("first_seen_at", Double, nullable=False),
    Column("last_seen_at", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("base_id", Id),
    UniqueConstraint("site_id", "fingerprint"),
    # A site's contents in the order of their finding, and what leans on what, without the rows.
    Index(None, "site_id", "last_seen_at", "base_id"),
    sqlite_autoincrement=True,
)

# What a site keeps, for pruning (see `content_retention`), counted after the fact: commits do not touch it. `rank` is
# `contents`, 0 where none of them can go. `due_at`: its oldest content beyond the newest `keep_contents` was current
# until then, so that it goes when this is older than `content_retention`; NULL: there is none. Differences of changes
# found up to `capped_through` went to hold the cap, those up to `expired_through` by age.
content_use = Table(
    "content_use",
    metadata,
    _site_id(primary_key=True),
    Column("contents", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("due_at", Double),
    Column("capped_through", Double),
    Column("expired_through", Double),
    Index(None, "rank"),
    Index(None, "due_at"),
)

# All contents with ids up to `counted_through` stand in `content_use`. `bytes` are they together, and those of sites
# that went since it was summed: never less than there are.
content_total = Table(
    "content_total",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("counted_through", Id, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

# The contents of a change may be pruned. Ids are never used again, so a pruned one simply finds nothing: reading
# joins, and writing is spared two indexes and a foreign key check each way.
change = Table(
    "change",
    metadata,
    _id(),
    _site_id(),
    Column("detected_at", Double, nullable=False),
    Column("previous_poll_at", Double),
    Column("kind", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("before_content_id", Id),
    Column("after_content_id", Id),
    # A site's changes in either order, without sorting.
    Index(None, "site_id", "id"),
    Index(None, "detected_at"),
    sqlite_autoincrement=True,
)

deleted_url = Table(
    "deleted_url",
    metadata,
    Column("url", Text, primary_key=True),
    Column("deleted_at", Double, nullable=False),
)

allocation = Table(
    "allocation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("allocator", Text, nullable=False),
    Column("objective", Text, nullable=False),
    Column("budget", Double, nullable=False),
    Column("shared_state", LargeBinary),
    # The last poll that `shared_state` has learned from.
    Column("learned_through", Id),
    CheckConstraint("id = 1", name="single"),
)

daemon_run = Table(
    "daemon_run",
    metadata,
    _id(),
    Column("started_at", Double, nullable=False),
    Column("stopped_at", Double),
    Column("version", Text, nullable=False),
    sqlite_autoincrement=True,
)

# The batch that went in last, so that one whose answer was lost is not counted again when it is repeated.
last_batch = Table(
    "last_batch",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("batch", LargeBinary, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

# The focused crawler. Its hosts are not those of `host`: of most of them nothing was ever asked.
#
# `value` of a page on the frontier is Q(x, 1), what asking for it brings from then on, and NULL for all others; `best`
# is the largest of a host's. `asked`: its pages that were asked for, `out`: those that are asked for now.
page_host = Table(
    "page_host",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    Column("best", Double),
    Column("asked", Integer, nullable=False, server_default="0"),
    Column("out", Integer, nullable=False, server_default="0"),
    Index(None, "best"),
    sqlite_autoincrement=True,
)

# `key` is a hash of the URL. `step`: requests of the crawler when the page was discovered. `parents`, `parents_sum`
# and `parents_best` are of the relevance of pages that link to it, `anchors` and `anchor_sum` of the texts of those
# links that say something, `anchor` the score of the first. `child_count` pages were discovered by this one; of them
# `children_retrieved` were retrieved, and their relevances add up to `children_relevance`. `own`: its site is not the
# user's.
page = Table(
    "page",
    metadata,
    _id(),
    Column("key", BigInteger, nullable=False, unique=True),
    Column("url", Text, nullable=False),
    Column("host_id", Id, nullable=False),
    Column("state", Text, nullable=False, server_default="fringe"),
    Column("reason", Text, nullable=False, server_default=""),
    Column("depth", Integer, nullable=False),
    Column("parent_id", Id),
    Column("discovered_at", Double, nullable=False),
    Column("step", BigInteger, nullable=False, server_default="0"),
    Column("asked_at", Double),
    Column("modified_at", Double),
    Column("value", Double),
    Column("relevance", Double),
    Column("site_id", Id),
    Column("own", Boolean, nullable=False, server_default=false()),
    Column("anchor", Double, nullable=False, server_default="0"),
    Column("parents", Integer, nullable=False, server_default="0"),
    Column("parents_sum", Double, nullable=False, server_default="0"),
    Column("parents_best", Double, nullable=False, server_default="0"),
    Column("anchors", Integer, nullable=False, server_default="0"),
    Column("anchor_sum", Double, nullable=False, server_default="0"),
    Column("child_count", Integer, nullable=False, server_default="0"),
    Column("children_retrieved", Integer, nullable=False, server_default="0"),
    Column("children_relevance", Double, nullable=False, server_default="0"),
    Index(None, "host_id", "value"),
    Index(None, "parent_id", "value"),
    Index(None, "state", "id"),
    Index(None, "site_id"),
    sqlite_autoincrement=True,
)

# `anchor` is the score of the link's text, 0 to 1. Pages never go, so that no foreign keys are needed.
page_link = Table(
    "page_link",
    metadata,
    Column("source_id", Id, primary_key=True, autoincrement=False),
    Column("target_id", Id, primary_key=True, autoincrement=False),
    Column("anchor", Double, nullable=False),
    Index(None, "target_id"),
    sqlite_with_rowid=False,
)

# The one collection of this database. `requests`: pages asked for from the frontier that were committed, `enrolled`:
# how many of them were found relevant. `learned`: what the request controller knows, versioned. `words`: a hash of what
# pages are scored by, `words_at`: since when it is that (epoch s); sites not seen since then are to be scored anew.
collection = Table(
    "collection",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("topic", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("requests", BigInteger, nullable=False, server_default="0"),
    Column("enrolled", BigInteger, nullable=False, server_default="0"),
    Column("learned", LargeBinary),
    Column("words", Text),
    Column("words_at", Double),
    CheckConstraint("id = 1", name="single"),
)
