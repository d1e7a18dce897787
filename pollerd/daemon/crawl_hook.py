"""The focused crawler's hooks in a poll; without a topic there is none, and nothing is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from pollerd.daemon.stages import Found
from pollerd.model import Detection, Outcome
from pollerd.storage.page_values import CrawlUpdate, PageRecord
from pollerd.storage.values import PollRecord, SiteContext

if TYPE_CHECKING:
    from pollerd.crawler.pages import PageReading


MayFollow = Callable[[str], Awaitable[bool]]


class PageHook(Protocol):
    """Called by the live loop at the steps of a poll: before it starts, when it is answered, judged and committed."""

    chooses_ahead: bool
    """Whether polls may be chosen before they can start; False if each answer decides what to request next."""

    def may_start(self) -> bool:
        """Returns whether one more poll may be in flight."""

    def started(self) -> None:
        """Notes that a poll starts."""

    def wants_whole(self, site_id: int) -> bool:
        """Returns whether the site needs an unconditional request."""

    def following(self, site_id: int, may_follow: MayFollow) -> MayFollow:
        """Returns the check for redirects of the site: `may_follow`, or a stricter one."""

    def responded(self, latency: float) -> None:
        """Notes that the poll was answered, or failed, after `latency` seconds."""

    async def read(self, context: SiteContext, outcome: Outcome, detection: Detection | None) -> PageReading | None:
        """Reads the answered page; None if there is nothing to read."""

    def processed(self, duration: float) -> None:
        """Notes that detection and reading took `duration` seconds."""

    def pause_after(self, latency: float, interval: float) -> float:
        """Returns the pause in s for a host that answered after `latency` s and is polled every `interval` s."""

    async def known_urls(self, results: Sequence[Found]) -> set[str]:
        """Returns the known URLs among those that the results link to. Raises DatabaseUnavailableError."""

    def judge(
        self, results: Sequence[Found], records: Sequence[PollRecord], known: set[str]
    ) -> tuple[dict[int, PageRecord], CrawlUpdate | None]:
        """Returns the page records by row, and the update of the crawl, if any."""

    def apply_committed(
        self, records: Sequence[PollRecord], update: CrawlUpdate | None, stale_pages: Sequence[int]
    ) -> Collection[int]:
        """Applies a commit; returns ids of the sites that were removed with their pages.

        stale_pages: ids of pages to be revalued.
        """

    def forget(self, site_id: int) -> None:
        """Forgets a removed site."""

    async def run(self) -> None:
        """Runs beside the polls until cancelled; returns at once if there is nothing to do."""
