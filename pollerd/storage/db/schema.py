"""The tables. Times are epoch seconds as doubles, durations seconds; ids only grow and are never reused."""

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
    text,
    true,
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

# SQLite assigns row ids itself only if the key is declared INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")
# Free space per page lets PostgreSQL update a hot row in place, without touching its indexes.
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

# The operator's last action on a host's pause. A separate table: polls rewrite hosts, while this rarely changes.
host_override = Table(
    "host_override",
    metadata,
    Column("host_id", Id, ForeignKey("host.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("by", Text, nullable=False),
    Column("paused", Boolean, nullable=False),
    # End of a pause by hand, if it is limited.
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
    # Settings that are NULL are inherited: from tags, then from defaults.
    Column("weight", Double),
    Column("cost", Double),
    Column("min_interval", Double),
    Column("max_interval", Double),
    Column("min_yield", Double),
    Column("respect_ttl", Boolean),
    Column("half_life", Double),
    Column("settings_changed_at", Double),
    # Headers, credentials and proxy, encrypted (see `encryption`); NULL: none.
    Column("access", LargeBinary),
    # What of the page counts, as JSON (see `detection.selection`); NULL: the whole page.
    Column("selections", Text),
    # How a browser renders the page, as JSON (see `rendering.plan`); NULL: it is fetched.
    Column("render", Text),
    Column("keep_screenshots", Boolean),
    Column("title", Text),
    # When it may be polled, as JSON (see `model.Windows`).
    Column("windows", Text),
    Index(None, "host_id"),
    sqlite_autoincrement=True,
)

site_tag = Table(
    "site_tag",
    metadata,
    _site_id(primary_key=True),
    Column("tag", Text, primary_key=True),
    # Its place among the site's tags: settings of the first go before those of the others.
    Column("position", Integer, nullable=False, server_default="0"),
    Index(None, "tag", "site_id"),
)

# What sites of a tag inherit: a JSON object of settings by name, and access as that of a site. No foreign key: most
# tags have no settings, and those of a tag may come before its sites.
tag = Table(
    "tag",
    metadata,
    Column("name", Text, primary_key=True),
    Column("settings", Text, nullable=False),
    Column("access", LargeBinary),
    Column("changed_at", Double, nullable=False),
)

# The one row that every poll rewrites. `content_id` is no foreign key: the current content is never pruned, and
# checking it would cost a lookup per poll.
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
    # Bytes, because a server may send any: they are sent back unchanged.
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

# Parts of a page that differ at every fetch (`detection.noise`): a row, perhaps with an empty mask, says that they are
# proven. `since`: changes found by earlier polls may be noise (epoch s; 0: none is). A separate table: every poll
# rewrites `site_state`, while this rarely changes.
mask = Table(
    "mask",
    metadata,
    _site_id(primary_key=True),
    Column("mask", LargeBinary, nullable=False),
    Column("since", Double, nullable=False),
)

# A selection of a site, for sites that have any. `version` is that of its settings: another one begins anew. `readings`
# and `announced`: its values as last read, and at the last change that mattered, as JSON. Neither content is a foreign
# key: both stay while they are here.
selection_state = Table(
    "selection_state",
    metadata,
    _site_id(primary_key=True),
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
    postgresql_with={"fillfactor": HOT_FILLFACTOR},
)

# A value of a selection each time it was read differently. `text`: as written for people and programs; `problem`: why
# it could not be read.
reading = Table(
    "reading",
    metadata,
    _id(),
    _site_id(),
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

# `size` is the compressed size, with that of its screenshot. `body` comes nearly last, so that reading the rest of a
# row skips its pages; only `base_id` follows, the base of a delta-encoded content, which takes no space in the row of a
# long one (see `compression`).
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
    _id(),
    _site_id(),
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
    # Last poll included in `shared_state`.
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

# The last committed batch, so that a batch repeated after a lost answer is not counted twice.
last_batch = Table(
    "last_batch",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("batch", LargeBinary, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

# The focused crawler. Its hosts are separate from `host`: most of them were never requested.
#
# `value` of a frontier page is Q(x, 1), the expected gain from requesting it, and NULL for all others; `best` is the
# largest of a host. `asked`: its requested pages, `out`: those on trial now.
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

# `key` is a hash of the URL. `step`: requests of the crawler when the page was discovered. `parents`, `parents_sum` and
# `parents_best` aggregate the relevance of linking pages, `anchors` and `anchor_sum` the scores of those links' texts
# that score above 0; `anchor` is the score of the first. `child_count` pages were discovered on this one;
# `children_retrieved` of them were retrieved, with relevances that add up to `children_relevance`. `own`: its site is
# not the user's.
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

# `anchor` is the score of the link's text, 0 to 1. Pages are never deleted, so foreign keys are not needed.
page_link = Table(
    "page_link",
    metadata,
    Column("source_id", Id, primary_key=True, autoincrement=False),
    Column("target_id", Id, primary_key=True, autoincrement=False),
    Column("anchor", Double, nullable=False),
    Index(None, "target_id"),
    sqlite_with_rowid=False,
)

# The one collection of this database. `requests`: committed requests of frontier pages, `enrolled`: number of them that
# were relevant. `learned`: the learned frontier value, versioned. `words`: a hash of the scoring terms, `words_at`:
# when it changed (epoch s); sites not seen since then must be rescored.
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

# A sitemap or feed whose pages become sites. `entries`: number of pages in the last reading that was believed; `pace`:
# the learned interval; `documents`: what it was read from, with validators and hashes of pages, for the next reading.
source = Table(
    "source",
    metadata,
    _id(),
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
    _site_id(),
    Column("state", Text, nullable=False),
    Column("since", Double, nullable=False),
    Column("added", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Index(None, "site_id"),
    Index(None, "source_id", "state", "site_id"),
)

# Where messages go. `settings`: JSON without secrets; `secrets`: JSON, encrypted (see `encryption`). `origin`: "api",
# or "file": the configuration holds it. `probe_at`: when a paused channel is tried once.
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

# What is told of, on which channels. `settings`: JSON; "channels" in it has the names of channels.
rule = Table(
    "rule",
    metadata,
    _id(),
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
    _site_id(primary_key=True),
    Column("id", Text, nullable=False),
    Column("since", Double, nullable=False),
    Index(None, "site_id"),
)


def _partial(name: str | None, *columns: str, where: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


# Events that are told, each once a channel. Nothing refers to sites, rules and channels: what happened is told even if
# one of them is gone meanwhile; `url` is the site's at that time. `waits_since`: when it was first to be sent; resent
# ones start anew. `message_id`: the message that it went into, and that every attempt sends whole. `ended_at` NULL: it
# is open.
outbox = Table(
    "outbox",
    metadata,
    _id(),
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
    _partial(None, "channel_id", "digest", "id", where="ended_at IS NULL AND message_id IS NULL"),
    _partial(
        "ix_outbox_digest_due",
        "channel_id",
        "due_at",
        where="ended_at IS NULL AND message_id IS NULL AND digest <> ''",
    ),
    _partial("ix_outbox_again", "channel_id", "due_at", where="ended_at IS NULL AND message_id IS NOT NULL"),
    # What holds it up: earlier ones of its site.
    _partial(None, "channel_id", "site_id", "id", where="ended_at IS NULL AND digest = ''"),
    _partial("ix_outbox_dead", "channel_id", "id", where="state = 'dead'"),
    _partial(None, "message_id", where="message_id IS NOT NULL"),
    _partial(None, "change_id", where="change_id IS NOT NULL"),
    _partial(None, "site_id", "id", where="site_id IS NOT NULL"),
    _partial(None, "ended_at", where="ended_at IS NOT NULL"),
    sqlite_autoincrement=True,
)

# The delivery log. `events`: how many the message told of; `status`: HTTP or SMTP code; `duration` in seconds.
attempt = Table(
    "attempt",
    metadata,
    _id(),
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
