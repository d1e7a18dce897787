"""Marks of sites that a job deleted, so that it can restore them with all their rows; they are purged later."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, insert, literal, select, update

from pollerd.model import PageState
from pollerd.storage.schema import deleted_url, page, page_host, site, site_mark
from pollerd.storage.statements import Statements


def forget_site(connection: Connection, site_id: int, why: str) -> None:
    """Rejects the page of a site that the user deleted or moved, so that it is not requested again."""
    mine = and_(page.c.site_id == site_id, page.c.state.in_((PageState.ASKED.value, PageState.COLLECTED.value)))
    hosts = select(page.c.host_id).where(mine, page.c.state == PageState.ASKED.value)
    fewer = update(page_host).where(page_host.c.id.in_(hosts)).values(out=page_host.c.out - 1)
    connection.execute(fewer)
    gone = {"state": PageState.REJECTED.value, "reason": why, "site_id": None, "own": False}
    connection.execute(update(page).where(mine).values(gone))


def is_soft_deleted(site_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Returns whether a job deleted the site, which may bring it back."""
    return exists(select(literal(1)).where(site_mark.c.site_id == site_id).offset(0))


def any_soft_deleted(connection: Connection) -> bool:
    """Returns whether any site is marked: mostly none is, and nothing has to be left out."""
    return bool(connection.execute(select(exists().select_from(site_mark))).scalar_one())


def mark(connection: Connection, sql: Statements, site_ids: Sequence[int], now: float) -> list[int]:
    """Marks sites, and their URLs as deleted by a user; returns the ids of those that were not marked before."""
    wanted = select(site.c.id, site.c.url).where(sql.in_list(site.c.id, "ids"), ~is_soft_deleted(site.c.id))
    rows = connection.execute(wanted, {"ids": sql.id_list(site_ids)}).all()
    if rows:
        connection.execute(insert(site_mark), [{"site_id": row.id, "marked_at": now} for row in rows])
        remember = sql.insert_for(deleted_url).on_conflict_do_nothing()
        connection.execute(remember, [{"url": row.url, "deleted_at": now} for row in rows])
    return [row.id for row in rows]


def unmark(connection: Connection, sql: Statements, site_ids: Sequence[int]) -> list[int]:
    """Brings marked sites back; returns the ids of those among these that were marked, ascending."""
    given = {"ids": sql.id_list(site_ids)}
    gone = delete(site_mark).where(sql.in_list(site_mark.c.site_id, "ids")).returning(site_mark.c.site_id)
    back = sorted(connection.execute(gone, given).scalars())
    urls = select(site.c.url).where(sql.in_list(site.c.id, "ids"))
    connection.execute(delete(deleted_url).where(deleted_url.c.url.in_(urls)), {"ids": sql.id_list(back)})
    return back


def purge(connection: Connection, sql: Statements, before: float, limit: int) -> int:
    """Deletes some sites that were marked before that time, with all their rows; returns how many."""
    c = site_mark.c
    ids = list(connection.execute(select(c.site_id).where(c.marked_at < before).limit(limit)).scalars())
    for site_id in ids:
        forget_site(connection, site_id, "its site was deleted")
    connection.execute(delete(site).where(sql.in_list(site.c.id, "ids")), {"ids": sql.id_list(ids)})
    return len(ids)


def purge_at(connection: Connection, url: str) -> None:
    """Deletes a marked site at this URL, if there is one, because another takes its place."""
    marked = site.c.id.in_(select(site_mark.c.site_id))
    connection.execute(delete(site).where(site.c.url == url, marked))
