"""Counts what each site keeps of contents, from those added since the last count.

So commits have no extra cost, and no round of pruning reads all contents.
"""

from __future__ import annotations

from sqlalchemy import Connection, case, func, select, update

from pollerd.model import Change
from pollerd.storage.db.schema.history import content, content_total, content_use
from pollerd.storage.db.statements import Statements

PIECE = 5_000
"""Most contents counted in one transaction."""


def count_new(connection: Connection, sql: Statements, keep: int, through: int | None) -> bool:
    """Counts some of the contents added since the last count; returns whether there may be more.

    through: none with larger ids, as one with a smaller id may still be committed; None: there is one writer.
    Sites that then keep more than `keep` become due.
    """
    after = connection.execute(select(content_total.c.counted_through)).scalar_one()
    added_since = select(content.c.id).where(content.c.id > after)
    if through is not None:
        added_since = added_since.where(content.c.id <= through)
    ids = added_since.order_by(content.c.id).limit(PIECE).subquery()
    last, new = connection.execute(select(func.max(ids.c.id), func.count())).one()
    if last is None:
        return False
    c, u = content.c, content_use.c
    of_sites = (
        select(c.site_id, func.count(), func.sum(c.size), func.count(), case((func.count() > keep, 0.0)))
        .where(c.id > after, c.id <= last)
        .group_by(c.site_id)
    )
    insert = sql.insert_for(content_use).from_select(["site_id", "contents", "bytes", "rank", "due_at"], of_sites)
    together = u.contents + insert.excluded.contents
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["site_id"],
            set_={
                "contents": together,
                "bytes": u.bytes + insert.excluded.bytes,
                "rank": together,
                "due_at": case((together > keep, func.coalesce(u.due_at, 0.0)), else_=u.due_at),
            },
        )
    )
    added = select(func.coalesce(func.sum(c.size), 0)).where(c.id > after, c.id <= last).scalar_subquery()
    connection.execute(update(content_total).values(counted_through=last, bytes=content_total.c.bytes + added))
    return bool(new == PIECE)


def bytes_at_most(connection: Connection) -> int:
    """Returns the compressed bytes of all counted contents, including those of sites deleted since `sum_up`."""
    return int(connection.execute(select(content_total.c.bytes)).scalar_one())


def sum_up(connection: Connection) -> int:
    """Recomputes and returns the exact `bytes_at_most`, from one short row per site."""
    total = select(func.coalesce(func.sum(content_use.c.bytes), 0)).scalar_subquery()
    connection.execute(update(content_total).values(bytes=total))
    return bytes_at_most(connection)


def limit_passed(connection: Connection, change: Change) -> str:
    """Returns the setting because of which a content of this change was dropped."""
    u = content_use.c
    statement = select(u.expired_through, u.capped_through).where(u.site_id == change.site_id)
    expired, capped = connection.execute(statement).one_or_none() or (None, None)
    if expired is not None and change.detected_at <= expired:
        return "content_retention"
    if capped is not None and change.detected_at <= capped:
        return "content_cap_bytes"
    return "keep_contents"  # from versions that kept exactly this number of contents per site
