"""One reading of a source: fetches its documents and gathers the pages that they list."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import xxhash
from numpy.typing import NDArray

from pollerd.crawling.pages.sitemaps import robots_sitemaps
from pollerd.crawling.sources.listing import ListedDocument, read_listing, same_host
from pollerd.daemon.process.workers import LIST_SECONDS, Effort, WorkerPool
from pollerd.daemon.sources.documents import DocumentFetcher
from pollerd.errors import TooHeavyError
from pollerd.model import Outcome, OutcomeKind, Validators
from pollerd.storage import ReadDocument, Source
from pollerd.urls import host_of, origin_of, robots_url

MOST_DOCUMENTS = 1_000
"""Maximum number of documents of one source."""
DEEPEST = 3
"""Levels of sitemaps: an index may list indexes, and those sitemaps."""
MOST_OTHER_HOSTS = 20
"""Maximum number of other hosts whose robots.txt is read for one reading."""
_FAILURES_IN_A_ROW = 3
_LARGE_BYTES = 16 * 1024
"""Size from which a document is read beside the event loop."""


@dataclass(slots=True)
class SourceReading:
    """What a reading found."""

    documents: list[ReadDocument] = field(default_factory=list)
    pages: dict[str, None] = field(default_factory=dict)
    """Pages in documents that were sent, in their order."""
    unchanged: list[ReadDocument] = field(default_factory=list)
    """Documents that are as they were: their pages are told by their keys."""
    entries: int = 0
    """Number of pages in all documents, before the pattern."""
    unusable: int = 0
    foreign: int = 0
    """Numbers of pages left out: their URL cannot be used, or is of a host that does not name the source."""
    trouble: str = ""
    """Why pages may be missing; empty: nothing is."""
    failed: bool = False
    """Whether not even the first document could be read."""
    retry_after: float | None = None

    @property
    def all_unchanged(self) -> bool:
        """Whether every document is as it was."""
        return not self.trouble and len(self.unchanged) == len(self.documents)

    def doubtful(self, reason: str) -> None:
        """Notes the first reason why pages may be missing."""
        self.trouble = self.trouble or reason


class SourceWalk:
    """Reads one source once, from its own URL to the last sitemap."""

    def __init__(
        self, source: Source, *, before: Sequence[ReadDocument], fetch: DocumentFetcher, pool: WorkerPool
    ) -> None:
        """`before`: the documents of the last complete reading."""
        self._spec, self._fetch, self._workers = source.spec, fetch, pool
        self._before = {one.url: one for one in before}
        self._reading = SourceReading()
        self._waiting: deque[tuple[str, int]] = deque([(source.spec.url, 1)])
        self._named = {source.spec.url}
        self._allows: dict[str, bool | None] = {}
        """Origin of another host -> whether its robots.txt names the source; None: not known."""

    async def read(self) -> SourceReading:
        """Returns what was found. A failure of the source is in it, and not raised."""
        failures = 0
        while self._waiting:
            url, depth = self._waiting.popleft()
            failures = 0 if await self._take(url, depth) else failures + 1
            if failures and depth == 1:
                self._reading.failed = True
            if failures >= _FAILURES_IN_A_ROW:
                break
        return self._reading

    async def _take(self, url: str, depth: int) -> bool:
        """Reads one document; returns False if it failed."""
        before = self._before.get(url)
        outcome = await self._fetch.fetch(url, Validators() if before is None else before.validators)
        if outcome.kind is OutcomeKind.NOT_MODIFIED and before is not None:
            self._note_unchanged(before, depth)
            return True
        if outcome.kind is not OutcomeKind.BODY or outcome.body is None:
            return self._failed(url, outcome.detail or f"the answer is {outcome.kind.value}", outcome)
        base = outcome.redirects[-1].url if outcome.redirects else url
        try:
            listing = await self._read(outcome, base)
        except TooHeavyError as error:
            return self._failed(url, str(error), outcome)
        if listing is None:
            return self._failed(url, f"is no {self._spec.kind}, or lists nothing", outcome)
        await self._note(url, base, outcome, listing, depth)
        return True

    async def _read(self, outcome: Outcome, base: str) -> ListedDocument | None:
        body = outcome.body or b""
        given = (self._spec.kind, body, outcome.content_type, base, self._spec.pattern)
        if len(body) < _LARGE_BYTES and not body.startswith(b"\x1f\x8b"):
            return read_listing(*given)
        return await self._workers.do(read_listing, *given, effort=Effort(host_of(base), patience=LIST_SECONDS))

    def _failed(self, url: str, reason: str, outcome: Outcome) -> bool:
        self._reading.doubtful(f"{url}: {reason}")
        if outcome.retry_after is not None:
            self._reading.retry_after = max(self._reading.retry_after or 0.0, outcome.retry_after)
        return False

    def _note_unchanged(self, before: ReadDocument, depth: int) -> None:
        self._reading.documents.append(before)
        self._reading.unchanged.append(before)
        self._reading.entries += before.entries
        self._follow(before.sitemaps, depth)

    async def _note(self, url: str, base: str, outcome: Outcome, listing: ListedDocument, depth: int) -> None:
        reading = self._reading
        if not listing.complete:
            reading.doubtful(f"{url}: it is cut off, damaged, or longer than a list may be")
        pages = await self._of_allowed_hosts(listing.pages, (self._spec.url, url, base))
        sitemaps = await self._of_allowed_hosts(listing.sitemaps, (self._spec.url, url, base))
        reading.foreign += len(listing.pages) - len(pages) + len(listing.sitemaps) - len(sitemaps)
        reading.unusable += listing.unusable
        reading.entries += listing.entries
        reading.pages.update(dict.fromkeys(pages))
        keys = page_keys(pages).tobytes()
        reading.documents.append(ReadDocument(url, outcome.validators, sitemaps, listing.entries, keys))
        self._follow(sitemaps, depth)

    def _follow(self, sitemaps: Sequence[str], depth: int) -> None:
        fresh = [url for url in sitemaps if url not in self._named]
        if fresh and depth >= DEEPEST:
            self._reading.doubtful(f"its sitemaps are nested more than {DEEPEST} deep")
            return
        room = MOST_DOCUMENTS - len(self._named)
        if len(fresh) > room:
            self._reading.doubtful(f"it has more than {MOST_DOCUMENTS:,} sitemaps")
        for url in fresh[:room]:
            self._named.add(url)
            self._waiting.append((url, depth + 1))

    async def _of_allowed_hosts(self, urls: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
        """Returns the URLs of the list's own hosts, and of hosts whose robots.txt names it. See sitemaps.org."""
        if self._spec.hosts == "any":
            return tuple(urls)
        origins = {origin_of(url): url for url in reversed(urls)}
        allowed = {origin for origin, url in origins.items() if await self._allowed(origin, url, own)}
        return tuple(urls) if len(allowed) == len(origins) else tuple(u for u in urls if origin_of(u) in allowed)

    async def _allowed(self, origin: str, url: str, own: Sequence[str]) -> bool:
        if any(same_host(url, one) for one in own):
            return True
        if origin not in self._allows and len(self._allows) < MOST_OTHER_HOSTS:
            text = await self._fetch.robots_txt(url)
            named = () if text is None else robots_sitemaps(text, robots_url(url))
            self._allows[origin] = None if text is None else not set(own).isdisjoint(named)
        found = self._allows.get(origin)
        if found is None and origin in self._allows:
            self._reading.doubtful(f"robots.txt of {origin} cannot be read, which says whether its pages belong here")
        return found is True


def page_keys(urls: Sequence[str]) -> NDArray[np.uint64]:
    """Returns the 64-bit hashes of URLs, uint64[k] little-endian."""
    return np.array([xxhash.xxh3_64_intdigest(url.encode()) for url in urls], dtype="<u8")


def listed_in(documents: Sequence[ReadDocument], urls: Sequence[str]) -> list[str]:
    """Returns the URLs among these that the documents list, by their keys."""
    keys = [np.frombuffer(one.keys, dtype="<u8") for one in documents]
    if not keys or not urls:
        return []
    held = np.isin(page_keys(urls), np.concatenate(keys))
    return [urls[place] for place in np.flatnonzero(held).tolist()]
