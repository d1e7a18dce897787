"""Signal sources, and what each said last of which site."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "signal_source",
        sa.Column("id", _Id, autoincrement=True, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("site_id", _Id),
        sa.Column("name", sa.Text),
        sa.Column("hosts", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("last_read_at", sa.Double),
        sa.Column("last_signal_at", sa.Double),
        sa.Column("signals", _Id, nullable=False, server_default="0"),
        sa.Column("last_detail", sa.Text, nullable=False, server_default=""),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_signal_source_site_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_signal_source"),
        sa.UniqueConstraint("site_id", name="uq_signal_source_site_id"),
        sa.UniqueConstraint("name", name="uq_signal_source_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "signal_page",
        sa.Column("source_id", _Id, autoincrement=False, nullable=False),
        sa.Column("site_id", _Id, autoincrement=False, nullable=False),
        sa.Column("said", sa.Double),
        sa.Column("signalled_at", sa.Double),
        sa.Column("signals", _Id, nullable=False, server_default="0"),
        sa.ForeignKeyConstraint(
            ["source_id"], ["signal_source.id"], name="fk_signal_page_source_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_signal_page_site_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("source_id", "site_id", name="pk_signal_page"),
    )
    op.create_index("ix_signal_page_site_id", "signal_page", ["site_id"])


def downgrade() -> None:
    op.drop_table("signal_page")
    op.drop_table("signal_source")
