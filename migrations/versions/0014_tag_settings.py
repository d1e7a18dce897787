"""Tags have settings that their sites inherit; a site may leave weight and cost unsaid."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_NUMBERS = ("weight", "cost")


def upgrade() -> None:
    op.create_table(
        "tag",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("access", sa.LargeBinary),
        sa.Column("changed_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_tag"),
    )
    op.add_column("site_tag", sa.Column("position", sa.Integer, nullable=False, server_default="0"))
    op.add_column("site", sa.Column("windows", sa.Text))
    _renew_numbers("NULL", "CASE WHEN {0}_was = 1 THEN NULL ELSE {0}_was END", optional=True)


def downgrade() -> None:
    _renew_numbers("NOT NULL DEFAULT 1", "coalesce({0}_was, 1)", optional=False)
    op.drop_column("site", "windows")
    op.drop_column("site_tag", "position")
    op.drop_table("tag")


def _renew_numbers(null: str, value: str, *, optional: bool) -> None:
    """Makes weight and cost optional, or not: SQLite cannot alter a column, and copying the table would copy all."""
    for name in _NUMBERS:
        if op.get_bind().dialect.name == "postgresql":
            if optional:
                op.alter_column("site", name, nullable=True)
                op.execute(f"UPDATE site SET {name} = NULL WHERE {name} = 1")
            else:
                op.execute(f"UPDATE site SET {name} = 1 WHERE {name} IS NULL")
                op.alter_column("site", name, nullable=False)
            continue
        op.execute(f"ALTER TABLE site RENAME COLUMN {name} TO {name}_was")
        op.execute(f"ALTER TABLE site ADD COLUMN {name} DOUBLE {null}")
        op.execute(f"UPDATE site SET {name} = {value.format(name)}")
        op.execute(f"ALTER TABLE site DROP COLUMN {name}_was")
