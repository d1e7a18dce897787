"""Sites and their hosts, what tags say of them, and what is known of each between polls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    false,
)
from sqlalchemy.types import TypeEngine

from pollerd.site_settings import COLUMNS, Kind, Setting
from pollerd.storage.db.schema.base import (
    HOT_FILLFACTOR,
    Id,
    PlainText,
    id_column,
    metadata,
    partial_index,
    site_id_column,
)

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
    return [Column(name, _TYPES[one.kind]) for name, one in settings.items()]


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

# What lists of sites are searched by, without regard to case: `words` holds URL and title. A table of its own, because
# a start reads all rows of `site`. Its index of trigrams is made by migration 0020, where the database has such.
site_text = Table(
    "site_text",
    metadata,
    site_id_column(primary_key=True),
    Column("title", PlainText, nullable=False, server_default=""),
    Column("words", Text, nullable=False),
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
    # Feeds: how many items it shows beyond which it drops some, and what else is known of them (see `feed_windows`).
    Column("items_shown", Double),
    Column("feed_window", Text),
    # Believed changes per day, -1: nothing is believed; rewritten when it differs noticeably (see `commit`). When the
    # last change was detected, 0: never. Lists sort by these, by state and by failures: a poll seldom changes them, so
    # that its row stays in place without touching their indexes.
    Column("rate", Double, nullable=False, server_default="-1"),
    Column("last_change_at", Double, nullable=False, server_default="0"),
    Index(None, "state", "site_id"),
    Index(None, "rate", "site_id"),
    Index(None, "last_change_at", "site_id"),
    Index(None, "failures", "site_id"),
    # Few pages redirect permanently.
    partial_index("ix_site_state_redirect_url", "redirect_url", where="redirect_url IS NOT NULL"),
    postgresql_with={"fillfactor": HOT_FILLFACTOR},
)

# When a site was polled last, and the earliest moment of its next poll as its last one left it; 0: never, and at once.
# A table of its own: every poll changes both, and with them the indexes.
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
