"""What the focused crawler adds to a poll. Without a topic `NoCrawl` stands in its place and adds nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

from pollerd.crawling.control.concurrency import pause_s
from pollerd.crawling.pages.reading import PageReading
from pollerd.daemon.crawler.concurrency import ConcurrencyLimiter
from pollerd.daemon.crawler.crawler import FocusedCrawler
from pollerd.daemon.crawler.page_reader import PageReader
from pollerd.daemon.state.poll_effect import PollEffect
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.settings import DaemonSettings
from pollerd.model import Detection, Outcome
from pollerd.storage import CrawlUpdate, PageRecord, PollRecord, SiteContext

MayFollow = Callable[[str], Awaitable[bool]]
_FLUSH_SECONDS = 0.05


class PageHook(Protocol):
    """The live loop calls these at the steps of a poll: before it, when it was answered, judged and committed."""

    chooses_ahead: bool
    """Whether polls may be chosen before they can start; not where one answer decides what to ask for next."""

    def may_start(self) -> bool:
        """Whether one more poll may be under way."""

    def started(self) -> None:
        """A poll starts."""

    def wants_whole(self, site_id: int) -> bool:
        """Whether the site is to be asked for its whole page, whatever is known of it."""

    def following(self, site_id: int, may_follow: MayFollow) -> MayFollow:
        """The check that redirects of the site have to pass: `may_follow`, or a stricter one."""

    def responded(self, latency: float) -> None:
        """The poll was answered, or failed, after `latency` seconds."""

    async def read(self, context: SiteContext, outcome: Outcome, detection: Detection | None) -> PageReading | None:
        """Reads the answered page; None where there is nothing to read."""

    def processed(self, duration: float) -> None:
        """Detection and reading took `duration` seconds."""

    def pause_after(self, latency: float, interval: float) -> float:
        """Seconds to leave alone a host that answered after `latency` s and is polled each `interval` s at most."""

    async def known_urls(self, results: Sequence[PollResult]) -> set[str]:
        """Which of the URLs that the results link to are known. Raises DatabaseUnavailableError."""

    def judge(
        self, results: Sequence[PollResult], effects: Sequence[PollEffect], known: set[str]
    ) -> tuple[dict[int, PageRecord], CrawlUpdate | None]:
        """What becomes of the pages, by row, and what else is to be stored, if anything."""

    def apply_committed(
        self, records: Sequence[PollRecord], update: CrawlUpdate | None, stale_pages: Sequence[int]
    ) -> Collection[int]:
        """Takes over what was committed; returns ids of the sites that ended with their pages.

        stale_pages: ids of pages that are to be valued again.
        """

    def forget(self, site_id: int) -> None:
        """The site was removed."""

    async def run(self) -> None:
        """Works beside the polls until cancelled; returns at once where there is nothing to do."""


class NoCrawl:
    """No topic is set: polls are as they are."""

    chooses_ahead = True

    def may_start(self) -> bool:
        """Always."""
        return True

    def started(self) -> None:
        """Counts nothing."""

    def wants_whole(self, _site_id: int) -> bool:
        """Never."""
        return False

    def following(self, _site_id: int, may_follow: MayFollow) -> MayFollow:
        """The same check."""
        return may_follow

    def responded(self, latency: float) -> None:
        """Counts nothing."""

    async def read(self, _context: SiteContext, _outcome: Outcome, _detection: Detection | None) -> None:
        """Reads nothing."""
        return

    def processed(self, duration: float) -> None:
        """Counts nothing."""

    def pause_after(self, _latency: float, _interval: float) -> float:
        """None beyond politeness."""
        return 0.0

    async def known_urls(self, _results: Sequence[PollResult]) -> set[str]:
        """No URLs are followed."""
        return set()

    def judge(
        self, _results: Sequence[PollResult], _effects: Sequence[PollEffect], _known: set[str]
    ) -> tuple[dict[int, PageRecord], None]:
        """No site is a page of a crawl."""
        return {}, None

    def apply_committed(
        self, _records: Sequence[PollRecord], _update: CrawlUpdate | None, _stale_pages: Sequence[int]
    ) -> Collection[int]:
        """No pages, no sites that end with them."""
        return ()

    def forget(self, site_id: int) -> None:
        """Holds nothing of a site."""

    async def run(self) -> None:
        """Nothing to do."""


class CrawlHook:
    """Connects the focused crawler, its page reader and its limit on concurrent requests with the polls."""

    chooses_ahead = False

    def __init__(self, *, crawler: FocusedCrawler, reader: PageReader, limiter: ConcurrencyLimiter) -> None:
        self._crawler, self._reader, self._limiter = crawler, reader, limiter
        self.wants_whole = reader.wants_whole
        self.following = reader.following
        self.read = reader.read
        self.started, self.responded, self.processed = limiter.started, limiter.responded, limiter.processed
        self.known_urls, self.judge = crawler.known_urls, crawler.judge
        self.apply_committed, self.forget, self.run = crawler.apply_committed, crawler.forget, crawler.run

    def may_start(self) -> bool:
        """Whether the limit allows one more request."""
        return self._limiter.may_start

    def pause_after(self, latency: float, interval: float) -> float:
        """A host that answers more slowly than it is polled is left alone for as long as its answer took."""
        return pause_s(0.0, latency) if latency > interval else 0.0


def crawl_settings(settings: DaemonSettings) -> DaemonSettings:
    """The settings for a daemon that crawls: results are committed soon, for they decide what to ask for next."""
    soon = min(settings.flush_seconds, _FLUSH_SECONDS)
    return replace(settings, flush_seconds=soon, gather_seconds=soon)
