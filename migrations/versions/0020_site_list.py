"""What lists of sites are searched, filtered and sorted by; sites that are marked as deleted; jobs on many sites."""

from __future__ import annotations

import sqlalchemy as sa
import structlog
from alembic import op
from sqlalchemy.exc import DBAPIError

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_PLAIN_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_PIECE = 2_000
_SORTED = ("state", "rate", "last_change_at", "failures")
_PAUSED = sa.text("paused")
# Trigrams of SQLite: an index beside `site_text`. Triggers follow changes, also where a site is deleted with its rows.
# Imports write new rows to it themselves: for a trigger the index would be flushed at every row, eight times the cost.
_TRIGRAMS = (
    """
    CREATE VIRTUAL TABLE site_trigram USING fts5(
        words, content='site_text', content_rowid='site_id', tokenize='trigram case_sensitive 1', detail='none',
        columnsize=0
    )
    """,
    "INSERT INTO site_trigram (site_trigram) VALUES ('rebuild')",
    """
    CREATE TRIGGER site_text_gone AFTER DELETE ON site_text BEGIN
        INSERT INTO site_trigram (site_trigram, rowid, words) VALUES ('delete', old.site_id, old.words);
    END
    """,
    """
    CREATE TRIGGER site_text_changed AFTER UPDATE OF words ON site_text BEGIN
        INSERT INTO site_trigram (site_trigram, rowid, words) VALUES ('delete', old.site_id, old.words);
        INSERT INTO site_trigram (rowid, words) VALUES (new.site_id, new.words);
    END
    """,
)
_SERVER_TRIGRAMS = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX ix_site_text_trigram ON site_text USING gin (words gin_trgm_ops)",
)


def _site_id() -> sa.Column[int]:
    return sa.Column("site_id", _ID, autoincrement=False, nullable=False)


def _of_site(table: str) -> tuple[sa.PrimaryKeyConstraint, sa.ForeignKeyConstraint]:
    key = sa.PrimaryKeyConstraint("site_id", name=f"pk_{table}")
    name = f"fk_{table}_site_id"
    return key, sa.ForeignKeyConstraint(["site_id"], ["site.id"], name=name, ondelete="CASCADE")


def upgrade() -> None:
    op.create_index("ix_site_paused", "site", ["id"], sqlite_where=_PAUSED, postgresql_where=_PAUSED)
    op.create_table(
        "site_text",
        _site_id(),
        sa.Column("title", _PLAIN_TEXT, nullable=False, server_default=""),
        sa.Column("words", sa.Text, nullable=False),
        *_of_site("site_text"),
    )
    op.create_table(
        "site_times",
        _site_id(),
        sa.Column("last_poll_at", sa.Double, nullable=False, server_default="0"),
        sa.Column("next_poll_at", sa.Double, nullable=False, server_default="0"),
        *_of_site("site_times"),
    )
    op.create_table("site_mark", _site_id(), sa.Column("marked_at", sa.Double, nullable=False), *_of_site("site_mark"))
    op.create_index("ix_site_mark_marked_at", "site_mark", ["marked_at"])
    op.add_column("site_state", sa.Column("rate", sa.Double, nullable=False, server_default="-1"))
    op.add_column("site_state", sa.Column("last_change_at", sa.Double, nullable=False, server_default="0"))
    _create_jobs()
    _fill()
    op.create_index("ix_site_text_title_site_id", "site_text", ["title", "site_id"])
    for column in _SORTED:
        op.create_index(f"ix_site_state_{column}_site_id", "site_state", [column, "site_id"])
    for column in ("last_poll_at", "next_poll_at"):
        op.create_index(f"ix_site_times_{column}_site_id", "site_times", [column, "site_id"])
    _index_words()


def _create_jobs() -> None:
    op.create_table(
        "job",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("filter", sa.Text),
        sa.Column("ids", sa.Text),
        sa.Column("newest_id", _ID, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("total_is_exact", sa.Boolean, nullable=False),
        sa.Column("position", _ID, nullable=False, server_default="0"),
        *(
            sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
            for name in ("seen", "changed", "refused", "restored")
        ),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("undo_until", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_job"),
        sqlite_autoincrement=True,
    )
    is_open = sa.text("ended_at IS NULL")
    op.create_index("ix_job_open", "job", ["id"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("ix_job_undo_until", "job", ["undo_until"])
    op.create_table(
        "job_change",
        sa.Column("job_id", _ID, autoincrement=False, nullable=False),
        sa.Column("site_id", _ID, autoincrement=False, nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "site_id", name="pk_job_change"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_change_job_id", ondelete="CASCADE"),
    )


def _fill() -> None:
    """Fills the tables for the sites that are there. Their rates are written with their next polls."""
    op.execute(
        "INSERT INTO site_times (site_id, last_poll_at, next_poll_at)"
        " SELECT site_id, coalesce(last_poll_at, 0), coalesce(not_before, 0) FROM site_state"
    )
    newest = "SELECT detected_at FROM change WHERE change.site_id = site_state.site_id ORDER BY id DESC LIMIT 1"
    op.execute(f"UPDATE site_state SET last_change_at = ({newest}) WHERE EXISTS ({newest})")
    bind, after = op.get_bind(), 0
    site = sa.table("site", sa.column("id"), sa.column("url"), sa.column("title"))
    texts = sa.table("site_text", sa.column("site_id"), sa.column("title"), sa.column("words"))
    read = sa.select(site.c.id, site.c.url, site.c.title).order_by(site.c.id).limit(_PIECE)
    while rows := bind.execute(read.where(site.c.id > after)).all():
        after = rows[-1].id
        bind.execute(sa.insert(texts), [_text(*row) for row in rows])


def _text(site_id: int, url: str, title: str | None) -> dict[str, object]:
    folded = (title or "").casefold()
    return {"site_id": site_id, "title": folded, "words": f"{url.casefold()}\n{folded}"}


def _index_words() -> None:
    """Indexes words by trigrams; where the database cannot, or may not, they are searched by their beginnings."""
    bind = op.get_bind()
    try:
        with bind.begin_nested():
            for statement in _TRIGRAMS if bind.dialect.name == "sqlite" else _SERVER_TRIGRAMS:
                op.execute(statement)
    except DBAPIError as error:
        structlog.get_logger("pollerd.storage").warning(
            "no_index_of_words",
            reason=str(error.orig).splitlines()[0],
            instead="lists of sites are searched by the beginnings of URLs and titles",
        )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for trigger in ("site_text_gone", "site_text_changed"):
            op.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        op.execute("DROP TABLE IF EXISTS site_trigram")
    # The extension stays: others in the database may use it.
    op.drop_table("job_change")
    op.drop_table("job")
    op.drop_table("site_mark")
    op.drop_table("site_times")
    for column in _SORTED:
        op.drop_index(f"ix_site_state_{column}_site_id", "site_state")
    op.drop_column("site_state", "last_change_at")
    op.drop_column("site_state", "rate")
    op.drop_table("site_text")
    op.drop_index("ix_site_paused", "site")
