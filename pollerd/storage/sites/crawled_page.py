"""Updates the crawler's page when the user deletes or moves its site."""

from __future__ import annotations

from sqlalchemy import Connection, and_, select, update

from pollerd.model import PageState
from pollerd.storage.db.schema.crawler import page, page_host


def forget_site(connection: Connection, site_id: int, why: str) -> None:
    """Rejects the page of a site that the user deleted or moved, so that it is not requested again."""
    mine = and_(page.c.site_id == site_id, page.c.state.in_((PageState.ASKED.value, PageState.COLLECTED.value)))
    hosts = select(page.c.host_id).where(mine, page.c.state == PageState.ASKED.value)
    fewer = update(page_host).where(page_host.c.id.in_(hosts)).values(out=page_host.c.out - 1)
    connection.execute(fewer)
    gone = {"state": PageState.REJECTED.value, "reason": why, "site_id": None, "own": False}
    connection.execute(update(page).where(mine).values(gone))
