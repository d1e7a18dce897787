"""The focused crawler's pages in the database: every method is one transaction, or some where it says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from pollerd.model import PageState
from pollerd.storage.crawler import collection
from pollerd.storage.crawler.collection import CollectionStatus, StoredPage
from pollerd.storage.crawler.frontier import Frontier
from pollerd.storage.db.engine import Database
from pollerd.storage.page_values import CollectionRow, PageRow, Trial
from pollerd.storage.values import ListPage


class CrawlStore:
    """The collection as it stands, and the frontier, from which the crawler asks for pages.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(self, database: Database, frontier: Frontier) -> None:
        self._database, self._frontier = database, frontier

    # The collection.

    async def exists(self) -> bool:
        """Whether there is, or ever was, a collection."""
        return await self._database.read(collection.exists)

    async def status(self) -> CollectionStatus | None:
        """How the collection stands; None where there never was one."""
        return await self._database.read(collection.read_status)

    async def list_pages(
        self,
        state: PageState | None = None,
        host: str | None = None,
        min_relevance: float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ListPage[StoredPage]:
        """Pages that the crawler knows, by id. `host`: "name:port".

        Raises `InvalidValueError` for a bad cursor or limit (1 to 1000).
        """
        return await self._database.read(lambda c: collection.list_pages(c, state, host, min_relevance, limit, cursor))

    async def iter_pages(self) -> AsyncIterator[StoredPage]:
        """All pages that the crawler knows, by id, read some at a time."""
        after = 0
        while rows := await self._database.read(lambda c, a=after: collection.pages_piece(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1].id

    async def iter_links(self) -> AsyncIterator[tuple[int, int, float]]:
        """All links between them, (source id, target id, score of the link's text), in order, read some at a time."""
        after = (0, 0)
        while rows := await self._database.read(lambda c, a=after: collection.links_piece(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1][:2]

    # The crawler at work.

    async def begin(self, topic: str, now: float, words: str = "") -> CollectionRow:
        """The collection on this topic, begun where there is none. Raises `ConfigError` where it is on another.

        words: tells apart what pages are scored by. What is held is unread from when it changed until it is seen.
        """
        return await self._database.write(lambda c: self._frontier.begin(c, topic, words, now))

    async def recall(self) -> int:
        """Without the crawler: sites on trial go, and their pages back to the frontier; how many they were."""
        return await self._database.write(self._frontier.recall)

    async def add_seeds(self, urls: Sequence[str], now: float) -> int:
        """Adds pages to begin with, to be asked for before others, where they are new; how many they were."""
        return await self._database.write(lambda c: self._frontier.add_seeds(c, urls, now))

    async def known(self, urls: Sequence[str]) -> set[str]:
        """Which of the normalised URLs are pages that the crawler knows."""
        return await self._database.read(lambda c: self._frontier.known(c, urls))

    async def held(self) -> AsyncIterator[Trial]:
        """All pages that are sites, on trial or in the collection, read some at a time."""
        after = 0
        while rows := await self._database.read(lambda c, a=after: self._frontier.held(c, a)):  # type: ignore[misc]
            for row in rows:
                yield row
            after = rows[-1].page_id

    async def sweep(self, after: int) -> tuple[list[PageRow], int]:
        """Some pages of the frontier with ids above `after`; where to go on, 0: from the beginning."""
        return await self._database.read(lambda c: self._frontier.sweep(c, after))

    async def around(self, page_ids: Sequence[int]) -> list[PageRow]:
        """What is known around the pages now, in no order."""
        return await self._database.read(lambda c: self._frontier.link_context.rows(c, page_ids))

    async def write_values(self, values: Sequence[tuple[PageRow, float]]) -> None:
        """Writes how valuable pages are, where they are still on the frontier."""
        await self._database.write(lambda c: self._frontier.write_values(c, values))

    async def promote(
        self, wanted: int, per_host: int, pages_per_host: int, weight: float, now: float, at: float | None = None
    ) -> list[Trial]:
        """Makes sites on trial, of this weight, of the best pages of the frontier: one a host, `wanted` at most.

        Hosts with `per_host` pages on trial are left out, and those of which `pages_per_host` were asked for. A page
        that is a site already comes back as held. `at`: takes one page of a host instead that lies so far in the list
        of hosts, 0 to 1.
        """
        return await self._database.write(
            lambda c: self._frontier.promote(c, wanted, per_host, pages_per_host, weight, now, at)
        )
