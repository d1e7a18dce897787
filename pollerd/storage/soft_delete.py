"""Soft deletion: a job marks sites as deleted, so that it can restore them with all their rows; others are purged."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, insert, literal, select, update

from pollerd.model import PageState
from pollerd.storage.engine import Database
from pollerd.storage.schema import deleted_url, page, page_host, site, site_mark
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, writes
from pollerd.texts import _

_PURGED_AT_ONCE = 200


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


def purge_at(connection: Connection, url: str) -> None:
    """Deletes a marked site at this URL, if there is one, because another takes its place."""
    marked = site.c.id.in_(select(site_mark.c.site_id))
    connection.execute(delete(site).where(site.c.url == url, marked))


class SoftDeletion(Subject):
    """Sites that are marked as deleted, until they are purged."""

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql

    @writes
    def mark(self, connection: Connection, site_ids: Sequence[int], now: float) -> list[int]:
        """Marks sites as deleted; from then on they are gone for everything but `unmark`, and for adding their URLs.

        Returns the ids of those that were not marked before.
        """
        statement = select(site.c.id, site.c.url).where(
            self._sql.in_list(site.c.id, "ids"), ~is_soft_deleted(site.c.id)
        )
        rows = connection.execute(statement, {"ids": self._sql.id_list(site_ids)}).all()
        if rows:
            connection.execute(insert(site_mark), [{"site_id": row.id, "marked_at": now} for row in rows])
            remember = self._sql.insert_for(deleted_url).on_conflict_do_nothing()
            connection.execute(remember, [{"url": row.url, "deleted_at": now} for row in rows])
        return [row.id for row in rows]

    @writes
    def unmark(self, connection: Connection, site_ids: Sequence[int]) -> list[int]:
        """Brings marked sites back with all their rows; returns the ids of those among these that were marked."""
        parameters = {"ids": self._sql.id_list(site_ids)}
        gone = delete(site_mark).where(self._sql.in_list(site_mark.c.site_id, "ids")).returning(site_mark.c.site_id)
        back = sorted(connection.execute(gone, parameters).scalars())
        urls = select(site.c.url).where(self._sql.in_list(site.c.id, "ids"))
        connection.execute(delete(deleted_url).where(deleted_url.c.url.in_(urls)), {"ids": self._sql.id_list(back)})
        return back

    async def purge(self, before: float) -> int:
        """Deletes sites that were marked before that time (epoch s), in short transactions; returns how many."""
        purged = 0
        while some := await self._purge_some(before):
            purged += some
        return purged

    @writes
    def _purge_some(self, connection: Connection, before: float) -> int:
        c = site_mark.c
        ids = list(connection.execute(select(c.site_id).where(c.marked_at < before).limit(_PURGED_AT_ONCE)).scalars())
        for site_id in ids:
            forget_site(connection, site_id, _("its site was deleted"))
        connection.execute(delete(site).where(self._sql.in_list(site.c.id, "ids")), {"ids": self._sql.id_list(ids)})
        return len(ids)
