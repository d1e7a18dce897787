"""Reads the answers of the focused crawler's sites for the topic, in the loop or, where they are long, beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pollerd.crawling.pages.reading import PageReading, read, recipe_of
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.daemon.state.runtime import Runtime
from pollerd.model import Detection, Outcome
from pollerd.storage import SiteContext

_HERE_BYTES = 32 * 1024
"""A page of this size is read in about 3 ms."""


class PageReader:
    """Reads pages of sites that are the crawler's, and keeps their redirects within the topic's domains."""

    def __init__(self, *, topic: TopicSettings, sites: Mapping[int, bool], unread: set[int], runtime: Runtime) -> None:
        """`sites`: id of each site that is read -> whether it is the crawler's own, so that it stays within bounds.

        `unread`: ids of those of which a whole page is wanted, whether or not it is news; they are taken out.
        """
        self._topic, self._recipe, self._sites = topic, recipe_of(topic), sites
        self._unread, self._workers, self._faults = unread, runtime.workers, runtime.faults

    def wants_whole(self, site_id: int) -> bool:
        """Whether the site was polled before the crawler came, and is to be asked for its whole page once."""
        return site_id in self._unread

    def following(self, site_id: int, may_follow: Callable[[str], Awaitable[bool]]) -> Callable[[str], Awaitable[bool]]:
        """Whether a redirect of the site may be followed: for the crawler's own, not out of the topic's domains."""
        if not self._sites.get(site_id, False):
            return may_follow

        async def within(url: str) -> bool:
            return self._topic.permits(url) and await may_follow(url)

        return within

    async def read(self, context: SiteContext, outcome: Outcome, detection: Detection | None) -> PageReading | None:
        """What a new body shows; None where the site is not the crawler's, nothing is new, or reading raised."""
        if context.site_id not in self._sites or outcome.body is None or detection is None:
            return None
        if detection.content is None and context.site_id not in self._unread:
            return None
        self._unread.discard(context.site_id)
        url = outcome.redirects[-1].url if outcome.redirects else context.url
        media = detection.baseline.media
        try:
            if len(outcome.body) > _HERE_BYTES:
                return await self._workers.do(read, self._recipe, url, outcome, media, detection.content)
            return read(self._recipe, url, outcome, media, detection.content)
        except Exception as error:  # noqa: BLE001
            self._faults.report(context, error)
            return None
