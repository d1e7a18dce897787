"""What is thrown away, a piece at a time, so that polling never waits long for it."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select

from pollerd.storage.schema import content, host, poll, site, site_state
from pollerd.storage.statements import Statements

PIECE = 5_000


def prune_polls(connection: Connection, before: float) -> int:
    """Delete up to `PIECE` of the oldest polls made before that time; how many."""
    oldest = select(poll.c.id).where(poll.c.at < before).order_by(poll.c.at).limit(PIECE)
    return connection.execute(delete(poll).where(poll.c.id.in_(oldest))).rowcount


def content_bytes(connection: Connection) -> int:
    """All kept contents together, compressed."""
    return int(connection.execute(select(func.coalesce(func.sum(content.c.size), 0))).scalar_one())


def prune_contents(connection: Connection, sql: Statements, excess: int) -> tuple[int, int]:
    """Delete up to `PIECE` of the contents longest unseen, never a current one, until `excess` bytes are gone.

    One that others lean on goes when they have gone. How many, and how many bytes; (0, 0) when only current ones and
    those they lean on are left.
    """
    c, other = content.c, content.alias("other").c
    leaned_on = select(other.id).where(other.site_id == c.site_id, other.base_id == c.id).exists()
    oldest = (
        select(c.id, c.size)
        .join_from(content, site_state, site_state.c.site_id == c.site_id)
        .where(site_state.c.content_id.is_distinct_from(c.id), ~leaned_on)
        .order_by(c.last_seen_at, c.id)
        .limit(PIECE)
    )
    gone: list[int] = []
    freed = 0
    for content_id, size in connection.execute(oldest):
        if freed >= excess:
            break
        gone.append(content_id)
        freed += size
    if gone:
        connection.exec_driver_sql(sql.delete_contents, (sql.many(gone),))
    return len(gone), freed


def drop_empty_hosts(connection: Connection) -> int:
    """Delete hosts that no site is on; how many. Only while nothing polls: the daemon holds host ids."""
    used = select(site.c.id).where(site.c.host_id == host.c.id).exists()
    return connection.execute(delete(host).where(~used)).rowcount
