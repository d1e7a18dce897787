"""Reads the answers of the focused crawler's sites for the topic: long ones in a worker, others in the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pollerd.crawling.pages.reading import PageReading, read, recipe_of
from pollerd.crawling.pages.topics import TopicSettings
from pollerd.daemon.process.workers import Effort
from pollerd.daemon.state.runtime import Runtime
from pollerd.model import Detection, Outcome
from pollerd.storage import SiteContext
from pollerd.urls import host_of

_HERE_BYTES = 32 * 1024
"""A page of this size is read in about 3 ms."""


class PageReader:
    """Reads pages of the crawler's sites, and keeps their redirects within the topic's domains."""

    def __init__(self, *, topic: TopicSettings, sites: Mapping[int, bool], unread: set[int], runtime: Runtime) -> None:
        """`sites`: id of each site that is read -> whether it belongs to the crawler, and so stays within the domains.

        `unread`: ids of sites to be read once even if unchanged; they are removed when read.
        """
        self._topic, self._recipe, self._sites = topic, recipe_of(topic), sites
        self._unread, self._workers, self._faults = unread, runtime.workers, runtime.faults

    def wants_whole(self, site_id: int) -> bool:
        """Returns whether the site was polled before the crawler was started, and needs one unconditional request."""
        return site_id in self._unread

    def following(self, site_id: int, may_follow: Callable[[str], Awaitable[bool]]) -> Callable[[str], Awaitable[bool]]:
        """Returns the check for redirects; for the crawler's own sites it also requires the topic's domains."""
        if not self._sites.get(site_id, False):
            return may_follow

        async def within(url: str) -> bool:
            return self._topic.permits(url) and await may_follow(url)

        return within

    async def read(self, context: SiteContext, outcome: Outcome, detection: Detection | None) -> PageReading | None:
        """Reads a new body; None if the site is not the crawler's, nothing is new, or reading raised."""
        if context.site_id not in self._sites or outcome.body is None or detection is None:
            return None
        if detection.content is None and context.site_id not in self._unread:
            return None
        self._unread.discard(context.site_id)
        url = outcome.redirects[-1].url if outcome.redirects else context.url
        media = detection.baseline.media
        try:
            if len(outcome.body) > _HERE_BYTES:
                given = (self._recipe, url, outcome, media, detection.content)
                return await self._workers.do(read, *given, effort=Effort(host_of(url)))
            return read(self._recipe, url, outcome, media, detection.content)
        except Exception as error:  # noqa: BLE001
            # Pages are untrusted: one that breaks a parser is reported, and not read for the topic.
            self._faults.report(context, error)
            return None
