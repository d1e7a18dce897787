"""Reads the focused crawler's collection: its status, its pages, the links between them.

Pages, their hosts and the links are the tables `page`, `page_host` and `page_link` of `schema`. `pages` writes what
polls found of them, `frontier` selects what to request next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select

from pollerd.model import PageState
from pollerd.storage.db.schema.crawler import collection, page, page_host, page_link
from pollerd.storage.encoding import cursors
from pollerd.storage.values import ListPage

PIECE = 5_000


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """The collection's status. Times in epoch s."""

    topic: str
    started_at: float
    requests: int
    """Pages requested from the frontier whose answer was committed."""
    enrolled: int
    """Number of them that were relevant; divided by `requests` this is the harvest rate."""
    pages: Mapping[PageState, int]
    """Number of pages by state, with every state."""
    hosts: int
    """Number of hosts of all known pages."""
    mean_relevance: float
    """Mean over the pages in the collection, 0 to 1; 0 if there are none."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page known to the crawler."""

    id: int
    url: str
    state: PageState
    reason: str
    """Short reason why it was rejected or is gone; else empty."""
    depth: int
    """Links from the nearest known seed."""
    relevance: float | None
    """Last score, 0 to 1; None if it was never read."""
    value: float | None
    """On the frontier: expected gain of requesting it, Q(x, 1); else None."""
    parent_id: int | None
    """Page on which it was discovered; None for a seed."""
    discovered_at: float
    asked_at: float | None
    """When it was last taken from the frontier."""
    modified_at: float | None
    """Time of its last change according to a sitemap or feed."""
    site_id: int | None
    own: bool
    """Whether its site belongs to the crawler; False if the site is a user's, or there is none."""


def exists(connection: Connection) -> bool:
    """Returns whether there is, or ever was, a collection."""
    return connection.execute(select(collection.c.id)).first() is not None


def read_status(connection: Connection) -> CollectionStatus | None:
    """Returns the collection's status; None if there never was one. Counts all pages: 0.1 s for a million."""
    c = collection.c
    row = connection.execute(select(c.topic, c.started_at, c.requests, c.enrolled)).one_or_none()
    if row is None:
        return None
    pages = dict.fromkeys(PageState, 0)
    for state, count in connection.execute(select(page.c.state, func.count()).group_by(page.c.state)):
        pages[PageState(state)] = count
    collected = page.c.state == PageState.COLLECTED.value
    mean = connection.execute(select(func.avg(page.c.relevance)).where(collected)).scalar_one()
    hosts = connection.execute(select(func.count()).select_from(page_host)).scalar_one()
    return CollectionStatus(*row, pages=pages, hosts=hosts, mean_relevance=mean or 0.0)


def list_pages(
    connection: Connection,
    state: PageState | None = None,
    host: str | None = None,
    min_relevance: float | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> ListPage[StoredPage]:
    """Returns pages by id. host: "name:port". Raises `InvalidValueError` for a bad cursor or limit (1 to 1000)."""
    statement = _pages().order_by(page.c.id).limit(cursors.check_limit(limit) + 1)
    last = cursors.decode("k", cursor)
    if last is not None:
        statement = statement.where(page.c.id > last)
    if state is not None:
        statement = statement.where(page.c.state == state.value)
    if host is not None:
        statement = statement.where(page.c.host_id.in_(select(page_host.c.id).where(page_host.c.name == host)))
    if min_relevance is not None:
        statement = statement.where(page.c.relevance >= min_relevance)
    found = [_page(*row) for row in connection.execute(statement)]
    more = len(found) > limit
    return ListPage(found[:limit], cursors.encode("k", found[limit - 1].id) if more else None)


def pages_piece(connection: Connection, after: int) -> list[StoredPage]:
    """Returns some pages with ids above `after`, ordered by id; none: there are no more."""
    statement = _pages().where(page.c.id > after).order_by(page.c.id).limit(PIECE)
    return [_page(*row) for row in connection.execute(statement)]


def before_newest(connection: Connection, most: int) -> int:
    """Returns the id of the page before the `most` newest ones; 0: there are no more than those."""
    older = connection.execute(select(page.c.id).order_by(page.c.id.desc()).offset(most).limit(1))
    return older.scalar() or 0


def urls_piece(connection: Connection, after: int) -> list[tuple[int, str]]:
    """Returns (id, URL) of some pages with ids above `after`, ordered by id; none: there are no more."""
    statement = select(page.c.id, page.c.url).where(page.c.id > after).order_by(page.c.id).limit(PIECE)
    return [(page_id, url) for page_id, url in connection.execute(statement)]


def links_piece(connection: Connection, after: tuple[int, int]) -> list[tuple[int, int, float]]:
    """Returns some links (source id, target id, score of the link's text) above `after`, in order; none: no more."""
    c = page_link.c
    later = (c.source_id > after[0]) | ((c.source_id == after[0]) & (c.target_id > after[1]))
    # The first condition follows from the second: it lets the index be used.
    statement = select(c.source_id, c.target_id, c.anchor).where(c.source_id >= after[0], later)
    rows = connection.execute(statement.order_by(c.source_id, c.target_id).limit(PIECE))
    return [(source, target, anchor) for source, target, anchor in rows]


def _pages() -> Select[Any]:
    c = page.c
    columns = (c.id, c.url, c.state, c.reason, c.depth, c.relevance, c.value, c.parent_id)
    return select(*columns, c.discovered_at, c.asked_at, c.modified_at, c.site_id, c.own)


def _page(page_id: int, url: str, state: str, *rest: Any) -> StoredPage:
    return StoredPage(page_id, url, PageState(state), *rest)
