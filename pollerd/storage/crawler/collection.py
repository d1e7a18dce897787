"""The focused crawler's collection: its status, its pages, the links between them, and the store of the crawler.

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
from pollerd.storage.crawler.frontier import Frontier
from pollerd.storage.engine import Database
from pollerd.storage.page_values import CollectionRow, PageRow, Trial
from pollerd.storage.schema import collection, page, page_host, page_link
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
    found = [_page(*row) for row in connection.execute(statement)]
    more = len(found) > limit
    return ListPage(found[:limit], encoding.encode("k", found[limit - 1].id) if more else None)


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


def host_graph(connection: Connection, most: int) -> HostGraph:
    """Returns the graph of the `most` largest hosts of the newest pages of the collection."""
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
        ends = [position.get(host_of.get(one, -1)) for one in (source, target)]
        if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
            between[min(ends[0], ends[1]), max(ends[0], ends[1])] += 1
    links = [(first, second, count) for (first, second), count in sorted(between.items())]
    return HostGraph([names.get(host, "?") for host in largest], [sizes[host] for host in largest], links)


# The store: each method is one transaction, or several where documented.


class CrawlStore:
    """The collection, and the frontier from which the crawler requests pages.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(self, database: Database, frontier: Frontier) -> None:
        self._database, self._frontier = database, frontier

    # The collection.

    async def exists(self) -> bool:
        """Returns whether there is, or ever was, a collection."""
        return await self._database.read(exists)

    async def status(self) -> CollectionStatus | None:
        """Returns the collection's status; None if there never was one."""
        return await self._database.read(read_status)

    async def host_graph(self, most: int) -> HostGraph:
        """Returns the `most` largest hosts of the newest 5,000 pages of the collection, and links between them."""
        return await self._database.read(lambda c: host_graph(c, most))

    async def list_pages(
        self,
        state: PageState | None = None,
        host: str | None = None,
        min_relevance: float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ListPage[StoredPage]:
        """Returns pages known to the crawler, by id. `host`: "name:port".

        Raises `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """
        return await self._database.read(lambda c: list_pages(c, state, host, min_relevance, limit, cursor))

    async def iter_pages(self) -> AsyncIterator[StoredPage]:
        """Yields all pages known to the crawler, by id, read in pieces."""
        after = 0
        while rows := await self._database.read(lambda c, a=after: pages_piece(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1].id

    async def newest_urls(self, most: int) -> AsyncIterator[list[str]]:
        """Yields the URLs of the `most` newest pages known to the crawler, by id, in pieces."""
        after = await self._database.read(lambda c: before_newest(c, most))
        while rows := await self._database.read(lambda c, a=after: urls_piece(c, a)):  # type: ignore[misc]
            yield [url for _, url in rows]
            after = rows[-1][0]

    async def iter_links(self) -> AsyncIterator[tuple[int, int, float]]:
        """Yields all links between them, (source id, target id, score of the link's text), in order, read in pieces."""
        after = (0, 0)
        while rows := await self._database.read(lambda c, a=after: links_piece(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1][:2]

    # The running crawler.

    async def begin(self, topic: str, now: float, words: str = "") -> CollectionRow:
        """Returns the collection on this topic, or starts one. Raises `ConfigError` if there is one on another topic.

        words: identifies the scoring terms. When it changes, the pages held are unread until they are read again.
        """
        return await self._database.write(lambda c: self._frontier.begin(c, topic, words, now))

    async def recall(self) -> int:
        """Without the crawler: deletes sites on trial and returns their pages to the frontier; returns how many."""
        return await self._database.write(self._frontier.recall)

    async def add_seeds(self, urls: Sequence[str], now: float) -> int:
        """Adds new pages as seeds, to be requested before others; returns how many."""
        return await self._database.write(lambda c: self._frontier.add_seeds(c, urls, now))

    async def known(self, urls: Sequence[str]) -> set[str]:
        """Returns the normalised URLs among these that are pages known to the crawler."""
        return await self._database.read(lambda c: self._frontier.known(c, urls))

    async def held(self) -> AsyncIterator[Trial]:
        """Yields all pages that are sites, on trial or in the collection, read in pieces."""
        after = 0
        while rows := await self._database.read(lambda c, a=after: self._frontier.held(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1].page_id

    async def sweep(self, after: int) -> tuple[list[PageRow], int]:
        """Returns some frontier pages with ids above `after`, and the id to continue from, 0: from the beginning."""
        return await self._database.read(lambda c: self._frontier.sweep(c, after))

    async def around(self, page_ids: Sequence[int]) -> list[PageRow]:
        """Returns the current link context of the pages, in no order."""
        return await self._database.read(lambda c: self._frontier.link_context.rows(c, page_ids))

    async def write_values(self, values: Sequence[tuple[PageRow, float]]) -> None:
        """Writes the values of pages that are still on the frontier."""
        await self._database.write(lambda c: self._frontier.write_values(c, values))

    async def promote(
        self, wanted: int, per_host: int, pages_per_host: int, weight: float, now: float, at: float | None = None
    ) -> list[Trial]:
        """Puts the best frontier pages on trial as sites of this weight: one per host, `wanted` at most.

        Leaves out hosts with `per_host` pages on trial, and those with `pages_per_host` pages requested. A page that is
        already a site is returned as held. `at`: takes one page of the host at this position in the list of hosts
        instead, 0 to 1.
        """
        return await self._database.write(
            lambda c: self._frontier.promote(c, wanted, per_host, pages_per_host, weight, now, at)
        )
