"""Readings of one source, and the sites brought in step with them. Loaded when the first source is due."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import structlog
import xxhash
from numpy.typing import NDArray

from pollerd.daemon.control.sites import SiteControl
from pollerd.daemon.outage_filter import OutageFilter
from pollerd.daemon.pages import PageRequests
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.workers import LIST_SECONDS, Effort, WorkerPool
from pollerd.errors import DatabaseUnavailableError, NotFoundError, TooHeavyError
from pollerd.fetching.request import Request
from pollerd.lists.readings import FIRST_SECONDS, MAX_SECONDS, ListedDifference, difference, doubt, next_interval
from pollerd.lists.sitemaps import MAX_BYTES, ListedDocument, read_listing, robots_sitemaps, same_host
from pollerd.model import Outcome, OutcomeKind, Validators
from pollerd.scheduling.hosts import backoff_seconds, lengthened
from pollerd.site_settings import SiteSpec
from pollerd.storage.sources import Member, ReadDocument, Source, SourceRead, SourceStore
from pollerd.storage.values import SiteContext
from pollerd.texts import _, n_
from pollerd.urls import host_of, origin_of, robots_url

# Documents of sources, fetched.

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
        request = Request(url, validators, most_bytes=MAX_BYTES)
        return await self._requests.get(_NO_SITE, request, cost=_COST, patience_seconds=_PATIENCE_SECONDS)

    async def robots_txt(self, url: str) -> bytes | None:
        """Returns the robots.txt that applies to the URL, empty if there is none; None if it cannot be read now."""
        return await self._requests.robots_txt(url)


# One reading of a source: its documents are fetched, and the pages gathered that they list.

MAX_DOCUMENTS = 1_000
"""Maximum number of documents of one source."""
DEEPEST = 3
"""Levels of sitemaps: an index may list indexes, and those sitemaps."""
MAX_OTHER_HOSTS = 20
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
        self._before = {document.url: document for document in before}
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
            return self._failed(url, outcome.detail or _("the answer is {kind}", kind=outcome.kind.value), outcome)
        base = outcome.redirects[-1].url if outcome.redirects else url
        try:
            listing = await self._read(outcome, base)
        except TooHeavyError as error:
            return self._failed(url, str(error), outcome)
        if listing is None:
            return self._failed(url, _("is no {kind}, or lists nothing", kind=self._spec.kind), outcome)
        await self._note(url, base, outcome, listing, depth)
        return True

    async def _read(self, outcome: Outcome, base: str) -> ListedDocument | None:
        body = outcome.body or b""
        arguments = (self._spec.kind, body, outcome.content_type, base, self._spec.pattern)
        if len(body) < _LARGE_BYTES and not body.startswith(b"\x1f\x8b"):
            return read_listing(*arguments)
        return await self._workers.do(read_listing, *arguments, effort=Effort(host_of(base), patience=LIST_SECONDS))

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
            reading.doubtful(_("{url}: it is cut off, damaged, or longer than a list may be", url=url))
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
            self._reading.doubtful(_("its sitemaps are nested more than {deepest} deep", deepest=DEEPEST))
            return
        room = MAX_DOCUMENTS - len(self._named)
        if len(fresh) > room:
            self._reading.doubtful(_("it has more than {max_documents:,} sitemaps", max_documents=MAX_DOCUMENTS))
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
        if any(same_host(url, address) for address in own):
            return True
        if origin not in self._allows and len(self._allows) < MAX_OTHER_HOSTS:
            text = await self._fetch.robots_txt(url)
            named = () if text is None else robots_sitemaps(text, robots_url(url))
            self._allows[origin] = None if text is None else not set(own).isdisjoint(named)
        allowed = self._allows.get(origin)
        if allowed is None and origin in self._allows:
            self._reading.doubtful(
                _("robots.txt of {origin} cannot be read, which says whether its pages belong here", origin=origin)
            )
        return allowed is True


def page_keys(urls: Sequence[str]) -> NDArray[np.uint64]:
    """Returns the 64-bit hashes of URLs, uint64[k] little-endian."""
    return np.array([xxhash.xxh3_64_intdigest(url.encode()) for url in urls], dtype="<u8")


def listed_in(documents: Sequence[ReadDocument], urls: Sequence[str]) -> list[str]:
    """Returns the URLs among these that the documents list, by their keys."""
    keys = [np.frombuffer(document.keys, dtype="<u8") for document in documents]
    if not keys or not urls:
        return []
    held = np.isin(page_keys(urls), np.concatenate(keys))
    return [urls[place] for place in np.flatnonzero(held).tolist()]


# Sites brought in step with a reading of their source, in pieces, each of which is committed by itself.

PIECE = 1_000
"""Sites in one transaction: small enough for commits of polls to run in between."""


@dataclass(slots=True)
class Applied:
    """What a reading came to."""

    joined: int = 0
    existing: int = 0
    vanished: int = 0
    paused: int = 0
    returned: int = 0
    deleted: int = 0
    over_limit: int = 0
    refused: int = 0
    reason: str = ""
    """Why the first refused site was refused."""
    doubt: str = ""
    """Why no page was taken as vanished; empty: pages were."""

    @property
    def news(self) -> bool:
        """Whether the reading made a difference."""
        return bool(self.joined or self.existing or self.vanished or self.returned)

    @property
    def settled(self) -> bool:
        """Whether nothing is left that the same documents could still bring."""
        return not (self.doubt or self.over_limit or self.refused)

    def in_words(self) -> str:
        """Returns one line for users."""
        counts = (
            (self.joined, "joined"),
            (self.existing, _("there before")),
            (self.vanished, _("vanished")),
            (self.paused, _("paused")),
            (self.returned, _("returned")),
            (self.deleted, _("skipped: deleted by a user")),
            (self.over_limit, _("skipped: over the limit")),
            (self.refused, _("refused: {reason}", reason=self.reason)),
        )
        clauses = [f"{number:,} {what}" for number, what in counts if number]
        return "; ".join(
            [*([_("no page is taken as vanished: {doubt}", doubt=self.doubt)] if self.doubt else []), *clauses]
        )


class SourceMembership:
    """Adds, pauses and resumes the sites of sources: first in the database, then in memory."""

    def __init__(
        self, *, store: SourceStore, sites: SiteControl, scheduler: SchedulerState, clock: Callable[[], float]
    ) -> None:
        self._store, self._sites, self._scheduler, self._clock = store, sites, scheduler, clock
        self._unsure: set[int] = set()
        """Sources with a change whose answer was lost: it may have been committed."""

    def is_sure(self, source_id: int) -> bool:
        """Returns whether memory agrees with the database about the source's sites, as far as is known."""
        return source_id not in self._unsure

    async def apply(self, source: Source, reading: SourceReading) -> Applied:
        """Applies what the reading found; pages that vanished only if it is whole and believed.

        Raises NotFoundError if the source is gone, DatabaseUnavailableError; a repeated call does the rest.
        """
        members = await self._store.members(source.id)
        try:
            await self._agree(source.id, members)
            return await self._apply(source, reading, members)
        except DatabaseUnavailableError:
            self._unsure.add(source.id)
            raise

    async def _agree(self, source_id: int, members: Sequence[Member]) -> None:
        ids = np.array([member.site_id for member in members], np.int64)
        if source_id not in self._unsure:
            ids = ids[self._scheduler.sites.slots_of(ids) < 0]
        for start in range(0, len(ids), PIECE):
            await self._sites.reload_from_store(ids[start : start + PIECE].tolist())
        self._unsure.discard(source_id)

    async def _apply(self, source: Source, reading: SourceReading, members: Sequence[Member]) -> Applied:
        known = {member.url: member.joined for member in members}
        listed = [*reading.pages, *listed_in(reading.unchanged, list(known))]
        changes = difference(known, listed)
        done = Applied()
        done.doubt = reading.trouble or doubt(reading.entries, source.entries, source.spec.most_shrink) or ""
        await self._join(source, changes, sum(known.values()), done)
        for piece in _pieces(changes.returned):
            async with self._scheduler.changing_sites:
                ids = await self._store.come_back(source.id, piece, self._clock())
                self._pause(ids, False)
                self._scheduler.end_backoffs(ids)
            done.returned += len(piece)
        for piece in _pieces(() if done.doubt else changes.vanished):
            async with self._scheduler.changing_sites:
                ids = await self._store.vanish(source.id, piece, self._clock())
                self._pause(ids, True)
            done.vanished, done.paused = done.vanished + len(piece), done.paused + len(ids)
        self._scheduler.due.set()
        return done

    async def _join(self, source: Source, changes: ListedDifference, present: int, done: Applied) -> None:
        spec = source.spec
        room = max(spec.site_limit - present - len(changes.returned), 0)
        left = list(changes.joined)
        while left and room > 0:
            piece, left = left[: min(PIECE, room)], left[min(PIECE, room) :]
            specs = [SiteSpec(url, weight=spec.weight, tags=spec.tags) for url in piece]
            result = await self._sites.add(specs, respect_deleted=True, source=source.id)
            done.joined += len(result.added)
            done.existing += len(result.existing)
            done.deleted += len(result.deleted)
            if result.refused:
                done.refused, done.reason = done.refused + len(result.refused), str(result.refused[0][1])
            room -= len(result.added) + len(result.existing)
        done.over_limit = len(left)

    def _pause(self, site_ids: Sequence[int], paused: bool) -> None:
        self._scheduler.pause_many(np.array(site_ids, np.int64), paused)


def left_out_in_words(reading: SourceReading) -> str:
    """Returns what of a reading cannot be used, in words; empty: all can."""
    clauses = []
    if reading.unusable:
        clauses.append(n_("{count} URL cannot be used", "{count} URLs cannot be used", reading.unusable))
    if reading.foreign:
        clauses.append(
            n_("{count} page of other hosts skipped", "{count} pages of other hosts skipped", reading.foreign)
        )
    return "; ".join(clauses)


def _pieces(urls: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(urls), PIECE):
        yield urls[start : start + PIECE]


_RETRY_SECONDS = 300.0


class _Ended(NamedTuple):
    applied: Applied
    reading: SourceReading


class SourceReadings:
    """Reads sources, one call a reading."""

    def __init__(
        self,
        *,
        store: SourceStore,
        documents: DocumentFetcher,
        membership: SourceMembership,
        outage_filter: OutageFilter,
        runtime: Runtime,
    ) -> None:
        self._store, self._documents, self._membership = store, documents, membership
        self._outage_filter, self._runtime = outage_filter, runtime
        self._clock, self._instruments = runtime.clock, runtime.instruments
        self._read_here: set[int] = set()
        """Sources with a complete reading by this process: what it left is known to be whole."""
        self._log = structlog.get_logger("pollerd.sources")

    async def read(self, source_id: int) -> tuple[float, bool] | None:
        """Reads the source; returns when it is due again (epoch s) and whether it fails, None if it is gone or paused.

        Raises DatabaseUnavailableError.
        """
        if self._outage_filter.offline:
            await self._outage_filter.online.wait()
        try:
            source = await self._store.get(source_id)
            if source.spec.paused:
                return None
            ended = await self._in_step(source)
        except NotFoundError:
            return None
        read = self._end_of(source, ended)
        if not await self._store.end_read(source, read):
            return None
        self._count(source, ended, read)
        return read.next_at, read.failures > 0

    async def _in_step(self, source: Source) -> _Ended:
        try:
            before = await self._store.documents(source.id)
            reading = await SourceWalk(source, before=before, fetch=self._documents, pool=self._runtime.workers).read()
            sure = source.id in self._read_here and self._membership.is_sure(source.id)
            if reading.failed:
                return _Ended(Applied(doubt=reading.trouble), reading)
            if reading.all_unchanged and sure and not source.failures:
                return _Ended(Applied(), reading)
            return _Ended(await self._membership.apply(source, reading), reading)
        except (DatabaseUnavailableError, NotFoundError):
            raise
        except Exception as error:  # noqa: BLE001
            # Lists are untrusted: one that breaks a parser affects only its own source.
            self._log.error("source_set_aside", source_id=source.id, url=source.spec.url, exc_info=error)
            self._instruments.site_faults.inc()
            reading = SourceReading(trouble=_("internal error: {name}", name=type(error).__name__), failed=True)
            return _Ended(Applied(doubt=reading.trouble), reading)

    def _end_of(self, source: Source, ended: _Ended) -> SourceRead:
        applied, reading = ended
        spec, now = source.spec, self._clock()
        whole = not applied.doubt
        pace = next_interval(spec.kind, source.pace, news=applied.news) if not reading.failed else source.pace
        interval = spec.interval or pace or FIRST_SECONDS[spec.kind]
        if reading.trouble:
            cap = min(interval, MAX_SECONDS[spec.kind])
            own = backoff_seconds(source.failures + 1, min(_RETRY_SECONDS, cap), cap, self._runtime.rng)
            interval = lengthened(own, reading.retry_after, max(cap, MAX_SECONDS[spec.kind]))
        if whole:
            self._read_here.add(source.id)
        documents = reading.documents if applied.settled else ([] if whole else None)
        words = "; ".join(filter(None, (applied.in_words(), left_out_in_words(reading))))
        return SourceRead(
            at=now,
            next_at=now + interval,
            pace=pace,
            entries=reading.entries if whole else source.entries,
            failures=0 if whole else source.failures + 1,
            detail=words or _("nothing new"),
            documents=documents,
        )

    def _count(self, source: Source, ended: _Ended, read: SourceRead) -> None:
        applied, reading = ended
        kind = (
            "failed" if reading.failed else "doubted" if applied.doubt else "changed" if applied.news else "unchanged"
        )
        self._instruments.source_reads[kind].inc()
        for name in ("joined", "vanished", "returned"):
            self._instruments.source_sites[name].inc(getattr(applied, name))
        level = logging.WARNING if read.failures or applied.vanished else logging.INFO
        self._log.log(level, "source_read", source_id=source.id, url=source.spec.url, result=kind, reason=read.detail)
