"""Fetches the documents of sources."""

from __future__ import annotations

from pollerd.crawling.pages.sitemaps import MOST_BYTES
from pollerd.daemon.polling.pages.requests import PageRequests
from pollerd.fetching import Request
from pollerd.model import Outcome, Validators
from pollerd.storage import SiteContext

_COST = 1.0
_PATIENCE_SECONDS = 600.0
"""Longest wait for a host; after that the reading is put off."""
_NO_SITE = SiteContext(0, "")


class DocumentFetcher:
    """Fetches documents, one after the other for each source. Each costs 1 of the budget."""

    def __init__(self, requests: PageRequests) -> None:
        self._requests = requests

    async def fetch(self, url: str, validators: Validators) -> Outcome:
        """Fetches the document at the normalised URL when its host and the budget allow; at most 50 MiB of it."""
        request = Request(url, validators, most_bytes=MOST_BYTES)
        return await self._requests.get(_NO_SITE, request, cost=_COST, patience_seconds=_PATIENCE_SECONDS)

    async def robots_txt(self, url: str) -> bytes | None:
        """Returns the robots.txt that applies to the URL, empty if there is none; None if it cannot be read now."""
        return await self._requests.robots_txt(url)
