"""First tables: hosts, sites, polls, contents, changes, learned state, runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
HOT = {"fillfactor": 70}


def _id(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
    ]


def _site_id(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("site_id", Id, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name=f"fk_{table}_site_id", ondelete="CASCADE"),
    ]


def _count(name: str, kind: type[sa.types.TypeEngine[int]] = sa.Integer) -> sa.Column[int]:
    return sa.Column(name, kind, nullable=False, server_default="0")


def upgrade() -> None:
    _create_sites()
    _create_site_state()
    _create_history()
    _create_daemon()


def _create_sites() -> None:
    op.create_table(
        "host",
        *_id("host"),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("last_start_at", sa.Double),
        sa.Column("paused_until", sa.Double),
        _count("throttles"),
        sa.Column("crawl_delay", sa.Double),
        sa.Column("robots_kind", sa.Text),
        sa.Column("robots_at", sa.Double),
        sa.Column("robots_detail", sa.Text, nullable=False, server_default=""),
        sa.Column("robots_body", sa.LargeBinary),
        sa.UniqueConstraint("name", name="uq_host_name"),
        sqlite_autoincrement=True,
        postgresql_with=HOT,
    )
    op.create_table(
        "site",
        *_id("site"),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("host_id", Id, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("cost", sa.Double, nullable=False),
        sa.Column("min_interval", sa.Double),
        sa.Column("max_interval", sa.Double),
        sa.Column("half_life", sa.Double),
        sa.Column("settings_changed_at", sa.Double),
        sa.UniqueConstraint("url", name="uq_site_url"),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name="fk_site_host_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_site_host_id", "site", ["host_id"])
    op.create_table(
        "site_tag",
        *_site_id("site_tag"),
        sa.Column("tag", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("site_id", "tag", name="pk_site_tag"),
    )
    op.create_index("ix_site_tag_tag", "site_tag", ["tag"])
    op.create_table(
        "deleted_url",
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("deleted_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("url", name="pk_deleted_url"),
    )


def _create_site_state() -> None:
    op.create_table(
        "site_state",
        *_site_id("site_state"),
        sa.Column("state", sa.Text, nullable=False, server_default="active"),
        sa.Column("last_poll_at", sa.Double),
        sa.Column("last_seen_at", sa.Double),
        sa.Column("not_before", sa.Double),
        _count("failures"),
        _count("polls", sa.BigInteger),
        _count("changes", sa.BigInteger),
        _count("polls_since_full"),
        sa.Column("last_outcome", sa.Text),
        sa.Column("last_detail", sa.Text, nullable=False, server_default=""),
        sa.Column("content_id", Id),
        sa.Column("etag", sa.LargeBinary),
        sa.Column("last_modified", sa.LargeBinary),
        sa.Column("content_type", sa.Text),
        sa.Column("fingerprint", sa.LargeBinary),
        sa.Column("raw_fingerprint", sa.LargeBinary),
        sa.Column("media", sa.Text),
        sa.Column("lm_seen", sa.Double),
        _count("lm_good"),
        _count("lm_bad"),
        sa.Column("redirect_url", sa.Text),
        _count("redirect_count"),
        sa.Column("items", sa.LargeBinary),
        sa.PrimaryKeyConstraint("site_id", name="pk_site_state"),
        postgresql_with=HOT,
    )
    op.create_table(
        "learned",
        *_site_id("learned"),
        sa.Column("allocator", sa.Text, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("site_id", name="pk_learned"),
        postgresql_with=HOT,
    )


def _create_history() -> None:
    op.create_table(
        "poll",
        *_id("poll"),
        *_site_id("poll"),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("elapsed", sa.Double),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("duration", sa.Double, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("changed", sa.Boolean, nullable=False),
        sa.Column("age", sa.Double),
        sa.Column("count", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
        sa.Column("redirects", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_poll_site_id_id", "poll", ["site_id", "id"])
    op.create_index("ix_poll_at", "poll", ["at"])
    op.create_table(
        "content",
        *_id("content"),
        *_site_id("content"),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("media", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("first_seen_at", sa.Double, nullable=False),
        sa.Column("last_seen_at", sa.Double, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("site_id", "fingerprint", name="uq_content_site_id_fingerprint"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_content_last_seen_at_size", "content", ["last_seen_at", "size"])
    op.create_table(
        "change",
        *_id("change"),
        *_site_id("change"),
        sa.Column("detected_at", sa.Double, nullable=False),
        sa.Column("previous_poll_at", sa.Double),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("before_content_id", Id),
        sa.Column("after_content_id", Id),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_change_site_id", "change", ["site_id"])
    op.create_index("ix_change_detected_at", "change", ["detected_at"])


def _create_daemon() -> None:
    op.create_table(
        "allocation",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("allocator", sa.Text, nullable=False),
        sa.Column("objective", sa.Text, nullable=False),
        sa.Column("budget", sa.Double, nullable=False),
        sa.Column("shared_state", sa.LargeBinary),
        sa.PrimaryKeyConstraint("id", name="pk_allocation"),
        sa.CheckConstraint("id = 1", name=op.f("ck_allocation_single")),
    )
    op.create_table(
        "daemon_run",
        *_id("daemon_run"),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("stopped_at", sa.Double),
        sa.Column("version", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "last_batch",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("batch", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_last_batch"),
        sa.CheckConstraint("id = 1", name=op.f("ck_last_batch_single")),
    )


def downgrade() -> None:
    for table in (
        "last_batch",
        "daemon_run",
        "allocation",
        "change",
        "content",
        "poll",
        "learned",
        "site_state",
        "deleted_url",
        "site_tag",
        "site",
        "host",
    ):
        op.drop_table(table)
