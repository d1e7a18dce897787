"""Contents that lean on another of their site: only what differs is kept."""

from __future__ import annotations

import struct

import sqlalchemy as sa
import zstandard
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
ENDS = struct.Struct(">II")
PIECE = 500

content = sa.table(
    "content", sa.column("id"), sa.column("size"), sa.column("body", sa.LargeBinary), sa.column("base_id")
)


def upgrade() -> None:
    op.add_column("content", sa.Column("base_id", Id))


def downgrade() -> None:
    while _made_whole(op.get_bind()):
        pass
    op.drop_column("content", "base_id")


def _made_whole(connection: sa.Connection) -> int:
    base = content.alias("base")
    leaning = sa.select(content.c.id, content.c.body, base.c.body).join_from(
        content, base, base.c.id == content.c.base_id
    )
    rows = connection.execute(leaning.order_by(content.c.id).limit(PIECE)).all()
    for content_id, body, base_body in rows:
        whole = zstandard.ZstdCompressor(level=1).compress(
            _restored(body, zstandard.ZstdDecompressor().decompress(base_body))
        )
        known = {"body": whole, "size": len(whole), "base_id": None}
        connection.execute(sa.update(content).where(content.c.id == content_id).values(known))
    return len(rows)


def _restored(body: bytes, base: bytes) -> bytes:
    head, tail = ENDS.unpack_from(body)
    return base[:head] + body[ENDS.size :] + base[len(base) - tail :]
