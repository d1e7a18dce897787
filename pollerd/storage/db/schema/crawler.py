"""The focused crawler: its collection and its frontier."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    false,
)

from pollerd.storage.db.schema.base import Id, id_column, metadata

# The focused crawler. Its hosts are separate from `host`: most of them were never requested.
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
