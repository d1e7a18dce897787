"""The focused crawler's pages in the database: each method is one transaction, or several where documented."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from pollerd.model import PageState
from pollerd.storage.crawler import collection
from pollerd.storage.crawler.collection import CollectionStatus, StoredPage
from pollerd.storage.crawler.frontier import Frontier
from pollerd.storage.crawler.host_graph import HostGraph, host_graph
from pollerd.storage.db.engine import Database
from pollerd.storage.page_values import CollectionRow, PageRow, Trial
from pollerd.storage.values import ListPage


class CrawlStore:
    """The collection, and the frontier from which the crawler requests pages.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(self, database: Database, frontier: Frontier) -> None:
        self._database, self._frontier = database, frontier

    # The collection.

    async def exists(self) -> bool:
        """Returns whether there is, or ever was, a collection."""
        return await self._database.read(collection.exists)

    async def status(self) -> CollectionStatus | None:
        """Returns the collection's status; None if there never was one."""
        return await self._database.read(collection.read_status)

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
        return await self._database.read(lambda c: collection.list_pages(c, state, host, min_relevance, limit, cursor))

    async def iter_pages(self) -> AsyncIterator[StoredPage]:
        """Yields all pages known to the crawler, by id, read in pieces."""
        after = 0
        while rows := await self._database.read(lambda c, a=after: collection.pages_piece(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1].id

    async def newest_urls(self, most: int) -> AsyncIterator[list[str]]:
        """Yields the URLs of the `most` newest pages known to the crawler, by id, in pieces."""
        after = await self._database.read(lambda c: collection.before_newest(c, most))
        while rows := await self._database.read(lambda c, a=after: collection.urls_piece(c, a)):  # type: ignore[misc]
            yield [url for _, url in rows]
            after = rows[-1][0]

    async def iter_links(self) -> AsyncIterator[tuple[int, int, float]]:
        """Yields all links between them, (source id, target id, score of the link's text), in order, read in pieces."""
        after = (0, 0)
        while rows := await self._database.read(lambda c, a=after: collection.links_piece(c, a)):  # type: ignore[misc]
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
