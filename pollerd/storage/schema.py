"""Tables of the database. Times are epoch seconds as doubles, durations seconds; ids only grow and are never reused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.types import TypeEngine

from pollerd.site_settings import COLUMNS, Kind, Setting

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


def id_column() -> Column[int]:
    """Returns a key that the database assigns."""
    return Column("id", Id, primary_key=True, autoincrement=True)


# Compared by its characters, whatever the database's language.
PlainText = Text().with_variant(Text(collation="C"), "postgresql")


def partial_index(name: str | None, *columns: str, where: str) -> Index:
    """Returns an index over the rows of which `where`, SQL, holds."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def site_id_column(primary_key: bool = False) -> Column[int]:
    """Returns the id of the site that a row goes with."""
    return Column(
        "site_id",
        Id,
        ForeignKey("site.id", ondelete="CASCADE"),
        primary_key=primary_key,
        autoincrement=False,
        nullable=False,
    )


# Sites and their hosts, settings of tags, and the state of each site between polls.

host = Table(
    "host",
    metadata,
    id_column(),
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

_TYPES: Mapping[Kind, type[TypeEngine[Any]]] = {
    Kind.TEXT: Text,
    Kind.SWITCH: Boolean,
    Kind.NUMBER: Double,
    Kind.SECONDS: Double,
    Kind.SHARE: Double,
    Kind.TRUST: SmallInteger,
    Kind.WINDOWS: Text,
    Kind.SELECTIONS: Text,
    Kind.RENDER: Text,
}


def setting_columns(settings: Mapping[str, Setting]) -> list[Column[Any]]:
    """Returns the columns of settings; migrations state them for themselves, and a test compares both."""
    return [Column(name, _TYPES[setting.kind]) for name, setting in settings.items()]


site = Table(
    "site",
    metadata,
    id_column(),
    Column("url", Text, nullable=False, unique=True),
    Column("host_id", Id, ForeignKey("host.id"), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=false()),
    # NULL: inherited, from tags, then from defaults; empty texts are NULL. Windows, selections and plans are JSON.
    *setting_columns(COLUMNS),
    Column("settings_changed_at", Double),
    # Headers, credentials and proxy, encrypted (see `encryption`); NULL: none.
    Column("access", LargeBinary),
    Index(None, "host_id"),
    # Few are.
    partial_index("ix_site_paused", "id", where="paused"),
    sqlite_autoincrement=True,
)

# The text by which lists of sites are searched, without regard to case: `words` holds URL and titles; `title` is the
# user's, else the page's own, which `page_title` has as it was read. A separate table, because a start reads all rows
# of `site`. Its index of trigrams is made by migration 0020, if the database has such.
site_text = Table(
    "site_text",
    metadata,
    site_id_column(primary_key=True),
    Column("title", PlainText, nullable=False, server_default=""),
    Column("words", Text, nullable=False),
    Column("page_title", Text, nullable=False, server_default=""),
    Index(None, "title", "site_id"),
)

site_tag = Table(
    "site_tag",
    metadata,
    site_id_column(primary_key=True),
    Column("tag", Text, primary_key=True),
    # Its place among the site's tags: settings of the first go before those of the others.
    Column("position", Integer, nullable=False, server_default="0"),
    Index(None, "tag", "site_id"),
)

# The settings that sites of a tag inherit: a JSON object by name, and access as that of a site. No foreign key: most
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
    site_id_column(primary_key=True),
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
    # Version of the reader that the fingerprint is of; NULL: the first.
    Column("reader", SmallInteger),
    # Why the page has no text that could be compared.
    Column("no_text", Text),
    Column("media", Text),
    Column("lm_seen", Double),
    Column("lm_good", Integer, nullable=False, server_default="0"),
    Column("lm_bad", Integer, nullable=False, server_default="0"),
    Column("redirect_url", Text),
    Column("redirect_count", Integer, nullable=False, server_default="0"),
    Column("items", LargeBinary),
    Column("ttl", Double),
    # Whether a change was found inside a time for which the page announced none.
    Column("ttl_broken", Boolean, nullable=False, server_default=false()),
    # Feeds: how many items it shows beyond which it drops some, and what else is known of them (see `encoding`).
    Column("items_shown", Double),
    Column("feed_window", Text),
    # Believed changes per day, -1: nothing is believed; rewritten when it differs noticeably (see `commit`). When the
    # last change was detected, 0: never. Lists sort by these, by state and by failures: a poll seldom changes them, so
    # that its row stays in place without touching their indexes.
    Column("rate", Double, nullable=False, server_default="-1"),
    Column("last_change_at", Double, nullable=False, server_default="0"),
    # Polls that found nothing because all that differed is masked as noise.
    Column("hidden_changes", BigInteger, nullable=False, server_default="0"),
    Index(None, "state", "site_id"),
    Index(None, "rate", "site_id"),
    Index(None, "last_change_at", "site_id"),
    Index(None, "failures", "site_id"),
    # Few pages redirect permanently.
    partial_index("ix_site_state_redirect_url", "redirect_url", where="redirect_url IS NOT NULL"),
    partial_index("ix_site_state_no_text", "site_id", where="no_text IS NOT NULL"),
    postgresql_with={"fillfactor": HOT_FILLFACTOR},
)

# The time of a site's last poll, and the earliest time of its next one as of then; 0: never, and at once. A separate
# table: every poll changes both, and with them the indexes.
site_times = Table(
    "site_times",
    metadata,
    site_id_column(primary_key=True),
    Column("last_poll_at", Double, nullable=False, server_default="0"),
    Column("next_poll_at", Double, nullable=False, server_default="0"),
    Index(None, "last_poll_at", "site_id"),
    Index(None, "next_poll_at", "site_id"),
)

# Sites that a job deleted: until they are purged it can bring them back. Everything else takes them for gone.
site_mark = Table(
    "site_mark",
    metadata,
    site_id_column(primary_key=True),
    Column("marked_at", Double, nullable=False),
    Index(None, "marked_at"),
)

learned = Table(
    "learned",
    metadata,
    site_id_column(primary_key=True),
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
    site_id_column(primary_key=True),
    Column("mask", LargeBinary, nullable=False),
    Column("since", Double, nullable=False),
)

deleted_url = Table(
    "deleted_url",
    metadata,
    Column("url", Text, primary_key=True),
    Column("deleted_at", Double, nullable=False),
)


# Results of polls: contents, changes, values of selections.

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
    # As in `site_state`.
    Column("reader", SmallInteger),
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
# long one (see `encoding`).
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

# The contents that a site keeps, for pruning (see `retention`), counted later: commits do not touch it. `rank` equals
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

# Changes expected in the minutes (since the epoch) in which the daemon ran, and in how many of their seconds it did.
yield_minute = Table(
    "yield_minute",
    metadata,
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("seconds", Double, nullable=False),
    Column("scheduled", Double, nullable=False),
    Column("uniform", Double, nullable=False),
    Column("best", Double, nullable=False),
    # What was done in it. `ignored`: polls that found nothing because all that differed is noise; `cpu`: seconds of a
    # core; `site_seconds`: sum over the sites that are polled.
    Column("polls", BigInteger, nullable=False, server_default="0"),
    Column("ignored", BigInteger, nullable=False, server_default="0"),
    Column("bytes", BigInteger, nullable=False, server_default="0"),
    Column("cpu", Double, nullable=False, server_default="0"),
    Column("site_seconds", Double, nullable=False, server_default="0"),
)

# Ids of the changes that a reader has seen, as ranges that neither touch nor overlap.
seen_range = Table(
    "seen_range",
    metadata,
    Column("reader", Text, primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
)

# Of each reader: when they last looked at what is new, and when the visit before ended (epoch s); whether they want no
# first steps.
reader_mark = Table(
    "reader_mark",
    metadata,
    Column("reader", Text, primary_key=True),
    Column("looked_at", Double),
    Column("looked_before", Double),
    Column("steps_dismissed", Boolean, nullable=False, server_default=false()),
)


# Sources of sites.

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

# The sites of a source's pages. The URL is that of the list: a user may have moved the site. `added`: the source added
# the site, so that it may pause it. `paused`: it did, and no user has paused or resumed the site since.
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


# Signal sources and their signals, and WebSub hubs.

# A site whose polls show when other pages change, or (without a site) a name under which programs report changes.
# `origin`: "api", "file" or "index"; `index_id`: the source whose index of sitemaps lists it, `made_site`: whether its
# site was added for that.
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

# The last signal of a source for a site. `said`: the date as written there, null: none. `signalled_at`: when this was
# last news; it waits for a poll of the site as long as it is later than the last one.
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

# Subscriptions at WebSub hubs. `source_id`: null after the source is gone, or offers another hub; `callback`: the end
# of the URL that the hub calls; `secret`: encrypted; `next_at`: when the next request is due.
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


# Notifications: channels, rules, the outbox and the delivery log.

# Channels. `settings`: JSON without secrets; `secrets`: JSON, encrypted (see `encryption`). `origin`: "api", or "file":
# the configuration holds it. `probe_at`: when a paused channel is tried once.
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

# Rules. `settings`: JSON; "channels" in it has the names of channels.
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

# A failure of which a rule notified and that goes on. No foreign key to the rule: a rule deleted while a poll is
# committed must not refuse that poll.
incident = Table(
    "incident",
    metadata,
    Column("rule_id", Id, primary_key=True, autoincrement=False),
    site_id_column(primary_key=True),
    Column("id", Text, nullable=False),
    Column("since", Double, nullable=False),
    Index(None, "site_id"),
)

# Notices: events to be sent, each once per channel. Nothing refers to sites, rules and channels: an event is sent even
# if one of them is gone meanwhile; `url` is the site's at that time. `waits_since`: when it was first to be sent;
# resent ones start again. `message_id`: the message that it went into, and that every attempt sends whole. `ended_at`
# NULL: it is open.
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

# The delivery log. `events`: their number in the message; `status`: HTTP or SMTP code; `duration` in seconds.
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


# Reads of changes, and half-lives learned from them.

# Reads of a site's changes, of sites that had any: sufficient statistics (see `allocation.reads`), no single reads.
# `open_change`: the newest change that was read, as JSON, if no other has followed; `newest_id`: the largest id of one.
# `precision` and `weighted`: evidence for other sites of the host. `half_life` and its interval: as of the last report.
site_reads = Table(
    "site_reads",
    metadata,
    site_id_column(primary_key=True),
    Column("reads", Id, nullable=False, server_default="0"),
    Column("changes", Id, nullable=False, server_default="0"),
    Column("newest_id", Id, nullable=False, server_default="0"),
    Column("last_read_at", Double),
    Column("open_change", Text),
    Column("statistics", LargeBinary),
    Column("precision", Double, nullable=False, server_default="0"),
    Column("weighted", Double, nullable=False, server_default="0"),
    Column("half_life", Double),
    Column("half_life_low", Double),
    Column("half_life_high", Double),
)

# The half-life learned from reads, by which a site is polled if none is set: rewritten, with a notification of the
# nodes, when it moved noticeably.
interest = Table(
    "interest",
    metadata,
    site_id_column(primary_key=True),
    Column("learned_half_life", Double, nullable=False),
)

# Reports of reads that were taken lately, and what came of them, so that a repeated one is not counted twice.
read_report = Table(
    "read_report",
    metadata,
    Column("report", Text, primary_key=True),
    Column("received_at", Double, nullable=False),
    Column("reads", Id, nullable=False, server_default="0"),
    Column("unknown_sites", Id, nullable=False, server_default="0"),
    Column("before_changes", Id, nullable=False, server_default="0"),
    Column("other_changes", Id, nullable=False, server_default="0"),
    Column("between_polls", Id, nullable=False, server_default="0"),
    Index(None, "received_at"),
)


# Runs of the daemon, and its state as a whole.

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
    # Seconds within which a change should be found; NULL: none was set yet.
    Column("deadline", Double),
    # Names by commas.
    Column("shadows", Text, nullable=False, server_default=""),
    CheckConstraint("id = 1", name="single"),
)

daemon_run = Table(
    "daemon_run",
    metadata,
    id_column(),
    Column("started_at", Double, nullable=False),
    Column("stopped_at", Double),
    Column("version", Text, nullable=False),
    # Who writes; empty: the only one.
    Column("writer", Text, nullable=False, server_default=""),
    sqlite_autoincrement=True,
)

# The last committed batch of each writer, so that a batch repeated after a lost answer is not counted twice.
last_batch = Table(
    "last_batch",
    metadata,
    Column("writer", Text, primary_key=True),
    Column("batch", LargeBinary, nullable=False),
)


# Jobs.

# Something done to many sites. `filter`, `ids` and `value`: JSON; one of the first two is NULL. Sites with ids up to
# `newest_id` are among those that it is done to. `position`: all sites up to this id were seen; while it is undone, all
# that it changed. `by`: the user. `undo_until`: what it changed is kept until then; NULL: nothing of it can be undone.
job = Table(
    "job",
    metadata,
    id_column(),
    Column("action", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("filter", Text),
    Column("ids", Text),
    Column("newest_id", Id, nullable=False),
    Column("by", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("total_is_exact", Boolean, nullable=False),
    Column("position", Id, nullable=False, server_default="0"),
    Column("seen", BigInteger, nullable=False, server_default="0"),
    Column("changed", BigInteger, nullable=False, server_default="0"),
    Column("refused", BigInteger, nullable=False, server_default="0"),
    Column("restored", BigInteger, nullable=False, server_default="0"),
    Column("detail", Text, nullable=False, server_default=""),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("undo_until", Double),
    partial_index("ix_job_open", "id", where="ended_at IS NULL"),
    Index(None, "undo_until"),
    sqlite_autoincrement=True,
)

# The settings of a site before a job changed it, as JSON. No foreign key: the site may be gone meanwhile.
job_change = Table(
    "job_change",
    metadata,
    Column("job_id", Id, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("site_id", Id, primary_key=True, autoincrement=False),
    Column("before", Text, nullable=False),
)

# Copies of what was deleted or marked, for undoing. `document`: JSON; `secrets`: of a channel, encrypted. `reader`: who
# alone can undo it; empty: all who may write.
kept_copy = Table(
    "kept_copy",
    metadata,
    id_column(),
    Column("kind", Text, nullable=False),
    Column("reader", Text, nullable=False, server_default=""),
    Column("title", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("secrets", LargeBinary),
    Column("kept_at", Double, nullable=False),
    Index(None, "kept_at"),
    sqlite_autoincrement=True,
)


# Accounts: users, sessions, tokens.

# Users. `key`: the name in its normal form, so that names that differ in case only are one. `password_hash`: argon2;
# NULL: the proxy in front signs the user in.
user_account = Table(
    "user_account",
    metadata,
    id_column(),
    Column("name", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("password_hash", Text),
    Column("created_at", Double, nullable=False),
    UniqueConstraint("key"),
    sqlite_autoincrement=True,
)

# Sessions. `digest`: SHA-256 of the session's secret. Without a user: a session begun with the token of `token_digest`,
# its SHA-256; that token may be one of the settings.
user_session = Table(
    "user_session",
    metadata,
    id_column(),
    Column("digest", LargeBinary, nullable=False),
    Column("user_id", Id, ForeignKey("user_account.id", ondelete="CASCADE")),
    Column("token_digest", LargeBinary),
    Column("created_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("agent", Text, nullable=False),
    Column("address", Text, nullable=False),
    UniqueConstraint("digest"),
    Index(None, "user_id"),
    sqlite_autoincrement=True,
)

# Tokens made while the daemon runs. `digest`: SHA-256.
api_token = Table(
    "api_token",
    metadata,
    id_column(),
    Column("name", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("used_at", Double),
    UniqueConstraint("key"),
    UniqueConstraint("digest"),
    sqlite_autoincrement=True,
)


# Several nodes on one database.

# The number of partitions; no row: no node has ever been here.
partitioning = Table(
    "partitioning",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("partitions", Integer, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

# The partition of a host. A table of its own: only nodes fill it, and polls rewrite `host`.
host_partition = Table(
    "host_partition",
    metadata,
    Column("host_id", Id, ForeignKey("host.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("partition", Integer, nullable=False),
    Index(None, "partition", "host_id"),
)

# Nodes that are here or were: which of them are is what the lock table says. `address`: where others reach its REST.
node = Table(
    "node",
    metadata,
    id_column(),
    Column("name", Text, nullable=False),
    # Empty: nodes ask one another through the database. It goes with a later version.
    Column("address", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    # Whether it has taken over the allocation of all nodes, or has set it as the first.
    Column("joined", Boolean, nullable=False, server_default=false()),
    # The newest schema that it knows; NULL: of a version that asked other nodes over HTTP.
    Column("revision", Text),
    sqlite_autoincrement=True,
)

# The oldest schema whose programs work with this one, as nodes do while they are upgraded one by one.
schema_support = Table(
    "schema_support",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("oldest", Text, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

# Nodes that are to hold nothing, by name, and since when: also after they were started again.
drained_node = Table(
    "drained_node",
    metadata,
    Column("name", Text, primary_key=True),
    Column("since", Double, nullable=False),
)

# How many sites a partition had when its holder last counted them.
partition_size = Table(
    "partition_size",
    metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("sites", Integer, nullable=False),
)

# The node that took a unit last and has not released it: a row of another node means that it died with requests under
# way.
holding = Table(
    "holding",
    metadata,
    Column("unit", Integer, primary_key=True, autoincrement=False),
    Column("node_id", Id, nullable=False),
    Column("since", Double, nullable=False),
)

# Learned state that the sites of a node have in common, by the node's name.
node_state = Table(
    "node_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("allocator", Text, nullable=False),
    Column("shared_state", LargeBinary, nullable=False),
    Column("saved_at", Double, nullable=False, server_default="0"),
)

# Of the version before, whose nodes signed their requests to one another. It goes with a later one.
cluster_secret = Table(
    "cluster_secret",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("secret", LargeBinary, nullable=False),
    Column("encrypted", Boolean, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

# Hosts that nodes ask beside the one that holds their partition. Times are of the server's clock. The row is in force
# while `owner` is the node that `holding` names for the partition: that node then asks the host with a claim, too.
shared_host = Table(
    "shared_host",
    metadata,
    Column("name", Text, primary_key=True),
    Column("partition", Integer, nullable=False),
    Column("owner", Id),
    # Who may ask the host now, and until when nobody else may if nothing more is heard of it.
    Column("holder", Id),
    Column("held_until", Double, nullable=False, server_default="0"),
    Column("next_free", Double, nullable=False, server_default="0"),
    # Shortest time between two requests, s.
    Column("gap", Double, nullable=False, server_default="0"),
    # Until when the host asked to be left alone: news for whoever claims it next.
    Column("paused_until", Double, nullable=False, server_default="0"),
    # The node whose turn is next.
    Column("waiting", Id),
    Column("waiting_until", Double, nullable=False, server_default="0"),
    # When another node than the owner last wanted it.
    Column("wanted_at", Double, nullable=False),
)

# Questions of nodes to the one of `node_id`, which writes the answer; whoever asked deletes the row.
node_question = Table(
    "node_question",
    metadata,
    id_column(),
    Column("node_id", Id, nullable=False),
    Column("question", LargeBinary, nullable=False),
    Column("answer", LargeBinary),
    Column("asked_at", Double, nullable=False),
    sqlite_autoincrement=True,
)

# The budget of all nodes, in polls a second: one row, of id 1, whose lock every change of a grant takes.
shared_budget = Table(
    "shared_budget",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("budget", Double, nullable=False),
)

# Shares of the nodes in the budget, in polls a second. `reserved`: the most that a node may be spending, of which
# nothing is free; `spending`: the amount that it last acknowledged; `target`: the amount that it is to have, NULL
# before the first division. `cost`: of a poll of each of its sites. `curve`: bytes of a `PriceCurve`. `gone_at`: when
# its session was first missed. `able`: the most that it can spend, NULL: whatever it is given; `spent`: what it did of
# late. `clock_ahead`: how far its clock is ahead of the server's, s.
budget_grant = Table(
    "budget_grant",
    metadata,
    Column("node", Text, primary_key=True),
    Column("reserved", Double, nullable=False),
    Column("spending", Double, nullable=False),
    Column("target", Double),
    Column("price", Double, nullable=False),
    Column("cost", Double, nullable=False),
    Column("curve", LargeBinary),
    Column("reported_at", Double, nullable=False),
    Column("gone_at", Double),
    Column("able", Double),
    Column("spent", Double),
    Column("clock_ahead", Double),
)


# The focused crawler: its collection and its frontier.

# The crawler's hosts are separate from `host`: most of them were never requested.
#
# `value` of a frontier page is Q(x, 1), the expected gain from requesting it, and NULL for all others; `best` is the
# largest of a host. `asked`: its requested pages, `out`: those on trial now.
page_host = Table(
    "page_host",
    metadata,
    id_column(),
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
    id_column(),
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
