"""What the pages sum up of each minute: polls, noise ignored, bytes, processor time, and the sites that were polled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

_COUNTS = ("polls", "ignored", "bytes")
_SUMS = ("cpu", "site_seconds")


def upgrade() -> None:
    for name in _COUNTS:
        op.add_column("yield_minute", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    for name in _SUMS:
        op.add_column("yield_minute", sa.Column(name, sa.Double, nullable=False, server_default="0"))


def downgrade() -> None:
    for name in (*_COUNTS, *_SUMS):
        op.drop_column("yield_minute", name)
