"""The topic robot: pages it knows, the links between them, their hosts, what it learned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _id(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
    ]


def _count(name: str, kind: type[sa.types.TypeEngine[int]] = sa.Integer) -> sa.Column[int]:
    return sa.Column(name, kind, nullable=False, server_default="0")


def _sum(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False, server_default="0")


def upgrade() -> None:
    op.create_table(
        "page_host",
        *_id("page_host"),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("best", sa.Double),
        _count("asked"),
        _count("out"),
        sa.UniqueConstraint("name", name="uq_page_host_name"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_page_host_best", "page_host", ["best"])
    _create_page()
    op.create_table(
        "page_link",
        sa.Column("source_id", Id, autoincrement=False, nullable=False),
        sa.Column("target_id", Id, autoincrement=False, nullable=False),
        sa.Column("anchor", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("source_id", "target_id", name="pk_page_link"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_page_link_target_id", "page_link", ["target_id"])
    op.create_table(
        "collection",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("started_at", sa.Double, nullable=False),
        _count("requests", sa.BigInteger),
        _count("enrolled", sa.BigInteger),
        sa.Column("learned", sa.LargeBinary),
        sa.CheckConstraint("id = 1", name="ck_collection_single"),
        sa.PrimaryKeyConstraint("id", name="pk_collection"),
    )


def _create_page() -> None:
    op.create_table(
        "page",
        *_id("page"),
        sa.Column("key", sa.BigInteger, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("host_id", Id, nullable=False),
        sa.Column("state", sa.Text, nullable=False, server_default="fringe"),
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("parent_id", Id),
        sa.Column("discovered_at", sa.Double, nullable=False),
        _count("step", sa.BigInteger),
        sa.Column("asked_at", sa.Double),
        sa.Column("modified_at", sa.Double),
        sa.Column("worth", sa.Double),
        sa.Column("relevance", sa.Double),
        sa.Column("site_id", Id),
        sa.Column("own", sa.Boolean, nullable=False, server_default=sa.false()),
        _sum("anchor"),
        _count("parents"),
        _sum("parents_sum"),
        _sum("parents_best"),
        _count("anchors"),
        _sum("anchor_sum"),
        _count("brood"),
        _count("brood_asked"),
        _sum("brood_sum"),
        sa.UniqueConstraint("key", name="uq_page_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_page_host_id_worth", "page", ["host_id", "worth"])
    op.create_index("ix_page_parent_id_worth", "page", ["parent_id", "worth"])
    op.create_index("ix_page_state_id", "page", ["state", "id"])
    op.create_index("ix_page_site_id", "page", ["site_id"])


def downgrade() -> None:
    for table in ("collection", "page_link", "page", "page_host"):
        op.drop_table(table)
