"""Users, their sessions, and tokens made while the daemon runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _id() -> sa.Column[int]:
    return sa.Column("id", ID, primary_key=True, autoincrement=True)


def upgrade() -> None:
    op.create_table(
        "user_account",
        _id(),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("password_hash", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.UniqueConstraint("key", name="uq_user_account_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "user_session",
        _id(),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column(
            "user_id",
            ID,
            sa.ForeignKey("user_account.id", ondelete="CASCADE", name="fk_user_session_user_id_user_account"),
        ),
        sa.Column("token_digest", sa.LargeBinary),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.UniqueConstraint("digest", name="uq_user_session_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_user_session_user_id", "user_session", ["user_id"])
    op.create_table(
        "api_token",
        _id(),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("used_at", sa.Double),
        sa.UniqueConstraint("key", name="uq_api_token_key"),
        sa.UniqueConstraint("digest", name="uq_api_token_digest"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    for table in ("api_token", "user_session", "user_account"):
        op.drop_table(table)
