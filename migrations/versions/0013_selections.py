"""What of a page counts: selections of sites, their values, and whether a change matters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("site", sa.Column("selections", sa.Text))
    op.add_column("site", sa.Column("render", sa.Text))
    op.add_column("site", sa.Column("title", sa.Text))
    op.add_column("change", sa.Column("selection", sa.Text))
    op.add_column("change", sa.Column("matters", sa.Boolean, nullable=False, server_default=sa.true()))
    op.add_column("change", sa.Column("why", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "selection_state",
        sa.Column("site_id", Id, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.LargeBinary, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary),
        sa.Column("media", sa.Text),
        sa.Column("items", sa.LargeBinary),
        sa.Column("mask", sa.LargeBinary),
        sa.Column("proven", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("content_id", Id),
        sa.Column("announced_id", Id),
        sa.Column("readings", sa.Text, nullable=False, server_default="{}"),
        sa.Column("announced", sa.Text, nullable=False, server_default="{}"),
        sa.Column("missing", sa.Text, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("site_id", "name", name="pk_selection_state"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_selection_state_site_id", ondelete="CASCADE"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "reading",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("site_id", Id, nullable=False),
        sa.Column("selection", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("number", sa.Double),
        sa.Column("moment", sa.Double),
        sa.Column("currency", sa.Text),
        sa.Column("problem", sa.Text, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name="pk_reading"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_reading_site_id", ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_reading_site_id_id", "reading", ["site_id", "id"])


def downgrade() -> None:
    op.drop_table("reading")
    op.drop_table("selection_state")
    op.drop_column("change", "why")
    op.drop_column("change", "matters")
    op.drop_column("change", "selection")
    op.drop_column("site", "title")
    op.drop_column("site", "render")
    op.drop_column("site", "selections")
