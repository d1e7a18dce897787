"""The focused crawler's collection: its status, its pages, and the links between them.

Pages, their hosts and the links are the tables `page`, `page_host` and `page_link` of `schema`. `pages` writes the
results of polls on them, `frontier` selects the pages to request next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select

from pollerd.model import PageState
from pollerd.shown import SHOWN, Moment, Share
from pollerd.storage import encoding
from pollerd.storage.engine import Database
from pollerd.storage.schema import collection, page, page_host, page_link
from pollerd.storage.transactions import Subject, reads
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
    """A page that the focused crawler knows."""

    __pydantic_config__ = SHOWN
    id: int
    url: str
    state: PageState
    reason: str
    """Short reason why it was rejected or is gone; else empty."""
    depth: int
    """Links from the nearest known seed."""
    relevance: Share | None
    """Last score; None if it was never read."""
    worth: float | None
    """On the frontier: expected gain of requesting it, Q(x, 1); else None."""
    parent_id: int | None
    """Page on which it was discovered; None for a seed."""
    discovered_at: Moment
    asked_at: Moment | None
    """When it was last taken from the frontier."""
    modified_at: Moment | None
    """Time of its last change according to a sitemap or feed."""
    site_id: int | None
    """Its site, while it is one."""
    own: bool
    """Whether its site belongs to the crawler; false if the site is a user's, or there is none."""


def _pages() -> Select[Any]:
    c = page.c
    columns = (c.id, c.url, c.state, c.reason, c.depth, c.relevance, c.value, c.parent_id)
    return select(*columns, c.discovered_at, c.asked_at, c.modified_at, c.site_id, c.own)


def _page(page_id: int, url: str, state: str, *rest: Any) -> StoredPage:
    return StoredPage(page_id, url, PageState(state), *rest)


# The graph of the collection's hosts and the links between them, for a picture.

NEWEST_PAGES = 5_000
"""Pages of the collection that are looked at: the newest."""
MAX_LINKS = 50_000


@dataclass(frozen=True, slots=True)
class HostGraph:
    """Hosts by number of pages, most first, and links between them."""

    names: Sequence[str]
    """name:port"""
    pages: Sequence[int]
    links: Sequence[tuple[int, int, int]]
    """(host, host, links between them in either direction); hosts as positions in `names`."""


class CollectionStore(Subject):
    """What the crawler has collected, and all pages that it knows."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    @reads
    def exists(self, connection: Connection) -> bool:
        """Returns whether there is, or ever was, a collection."""
        return connection.execute(select(collection.c.id)).first() is not None

    @reads
    def status(self, connection: Connection) -> CollectionStatus | None:
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

    @reads
    def host_graph(self, connection: Connection, most: int) -> HostGraph:
        """Returns the `most` largest hosts of the newest 5,000 pages of the collection, and links between them."""
        collected = select(page.c.id, page.c.host_id).where(page.c.state == PageState.COLLECTED.value)
        newest = collected.order_by(page.c.id.desc()).limit(NEWEST_PAGES)
        host_of = {row.id: row.host_id for row in connection.execute(newest)}
        largest = [host for host, _ in Counter(host_of.values()).most_common(most)]
        sizes, position = Counter(host_of.values()), {host: n for n, host in enumerate(largest)}
        named = connection.execute(select(page_host.c.id, page_host.c.name).where(page_host.c.id.in_(largest)))
        names = {row.id: row.name for row in named}
        some = newest.subquery()
        statement = select(page_link.c.source_id, page_link.c.target_id).join(some, some.c.id == page_link.c.source_id)
        between: Counter[tuple[int, int]] = Counter()
        for source, target in connection.execute(statement.limit(MAX_LINKS)):
            ends = [position.get(host_of.get(page_id, -1)) for page_id in (source, target)]
            if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
                between[min(ends[0], ends[1]), max(ends[0], ends[1])] += 1
        links = [(first, second, count) for (first, second), count in sorted(between.items())]
        return HostGraph([names.get(host, "?") for host in largest], [sizes[host] for host in largest], links)

    @reads
    def list_pages(
        self,
        connection: Connection,
        state: PageState | None = None,
        host: str | None = None,
        min_relevance: float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ListPage[StoredPage]:
        """Returns pages known to the crawler, by id. `host`: "name:port".

        Raises `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """
        statement = _pages().order_by(page.c.id).limit(encoding.check_limit(limit) + 1)
        last = encoding.decode("k", cursor)
        if last is not None:
            statement = statement.where(page.c.id > last)
        if state is not None:
            statement = statement.where(page.c.state == state.value)
        if host is not None:
            statement = statement.where(page.c.host_id.in_(select(page_host.c.id).where(page_host.c.name == host)))
        if min_relevance is not None:
            statement = statement.where(page.c.relevance >= min_relevance)
        pages = [_page(*row) for row in connection.execute(statement)]
        more = len(pages) > limit
        return ListPage(pages[:limit], encoding.encode("k", pages[limit - 1].id) if more else None)

    async def iter_pages(self) -> AsyncIterator[StoredPage]:
        """Yields all pages known to the crawler, by id, read in pieces."""
        after = 0
        while rows := await self._pages_after(after):
            for row in rows:
                yield row
            after = rows[-1].id

    @reads
    def _pages_after(self, connection: Connection, after: int) -> list[StoredPage]:
        statement = _pages().where(page.c.id > after).order_by(page.c.id).limit(PIECE)
        return [_page(*row) for row in connection.execute(statement)]

    async def newest_urls(self, most: int) -> AsyncIterator[list[str]]:
        """Yields the URLs of the `most` newest pages known to the crawler, by id, in pieces."""
        after = await self._before_newest(most)
        while rows := await self._urls_after(after):
            yield [url for _, url in rows]
            after = rows[-1][0]

    @reads
    def _before_newest(self, connection: Connection, most: int) -> int:
        """Returns the id of the page before the `most` newest ones; 0: there are no more than those."""
        older = connection.execute(select(page.c.id).order_by(page.c.id.desc()).offset(most).limit(1))
        return older.scalar() or 0

    @reads
    def _urls_after(self, connection: Connection, after: int) -> list[tuple[int, str]]:
        statement = select(page.c.id, page.c.url).where(page.c.id > after).order_by(page.c.id).limit(PIECE)
        return [(page_id, url) for page_id, url in connection.execute(statement)]

    async def iter_links(self) -> AsyncIterator[tuple[int, int, float]]:
        """Yields all links between them, (source id, target id, score of the link's text), in order, read in pieces."""
        after = (0, 0)
        while rows := await self._links_after(after):
            for row in rows:
                yield row
            after = rows[-1][:2]

    @reads
    def _links_after(self, connection: Connection, after: tuple[int, int]) -> list[tuple[int, int, float]]:
        c = page_link.c
        later = (c.source_id > after[0]) | ((c.source_id == after[0]) & (c.target_id > after[1]))
        # The first condition follows from the second: it lets the index be used.
        statement = select(c.source_id, c.target_id, c.anchor).where(c.source_id >= after[0], later)
        rows = connection.execute(statement.order_by(c.source_id, c.target_id).limit(PIECE))
        return [(source, target, anchor) for source, target, anchor in rows]
