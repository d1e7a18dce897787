"""Names of columns of the crawler's pages: a page has a value, and children."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_NAMES = {
    "worth": "value",
    "brood": "child_count",
    "brood_asked": "children_retrieved",
    "brood_sum": "children_relevance",
}
_INDEXED = ("host_id", "parent_id")


def upgrade() -> None:
    for before, after in _NAMES.items():
        op.execute(f"ALTER TABLE page RENAME COLUMN {before} TO {after}")
    _rename_indexes("worth", "value")


def downgrade() -> None:
    for before, after in _NAMES.items():
        op.execute(f"ALTER TABLE page RENAME COLUMN {after} TO {before}")
    _rename_indexes("value", "worth")


def _rename_indexes(before: str, after: str) -> None:
    """Renames the two indexes on the value; SQLite has no statement for it and makes them again."""
    for column in _INDEXED:
        old, new = f"ix_page_{column}_{before}", f"ix_page_{column}_{after}"
        if op.get_bind().dialect.name == "postgresql":
            op.execute(f"ALTER INDEX {old} RENAME TO {new}")
        else:
            op.drop_index(old, "page")
            op.create_index(new, "page", [column, after])
