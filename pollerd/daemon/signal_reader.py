"""Signals read from the polls of sites that are signal sources, and the sites made of an index's sitemaps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import structlog
from msgspec import Struct
from msgspec.structs import replace

from pollerd.daemon.faults import RETRY_CAP_SECONDS, Faults
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.signal_control import SignalControl
from pollerd.daemon.signals import SignalSources, SourceNews
from pollerd.daemon.stages import Found
from pollerd.daemon.workers import LIST_SECONDS, Effort
from pollerd.errors import DatabaseUnavailableError, DuplicateError, InvalidValueError, NotFoundError
from pollerd.lists.sitemaps import ListedChanges, read_changes
from pollerd.model import Outcome, OutcomeKind
from pollerd.site_settings import SiteSpec
from pollerd.storage.signals import ListedDate, SignalOrigin, SignalSource, SignalSourceSpec, SignalStore, StoredSignal
from pollerd.storage.values import AddResult
from pollerd.texts import _, n_
from pollerd.urls import host_of

# Documents of signal sources: their signals are stored, and kept until they are passed on.

PIECE = 1_000
"""URLs in one transaction: small enough for commits of polls to run in between."""
_LARGE_BYTES = 16 * 1024
"""Size from which a document is read beside the event loop."""
_GZIP = b"\x1f\x8b"


class SignalDocument(Struct, frozen=True, gc=False):
    """A document of a source. base: its normalised URL. pushed: a hub sent it, so it may be a part of the whole."""

    body: bytes
    content_type: str | None
    base: str
    pushed: bool = False

    @property
    def is_long(self) -> bool:
        """Whether reading it takes so long that nothing else should wait for it."""
        return len(self.body) >= _LARGE_BYTES or self.body.startswith(_GZIP)


@dataclass(slots=True)
class _Reading:
    """What was stored of a document so far, as in `SourceNews`."""

    signals: list[StoredSignal] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    ended: bool = False

    def news(self, source_id: int, at: float, noted_at: float) -> SourceNews:
        told = tuple(self.signals), tuple(self.joined), tuple(self.left)
        return SourceNews(source_id, at, *told, ended=self.ended, noted_at=noted_at)


class DocumentSignals:
    """Stores what documents say in the database before it is passed to the allocator."""

    def __init__(self, *, store: SignalStore, sources: SignalSources, runtime: Runtime) -> None:
        self._store, self._sources = store, sources
        self._workers, self._clock, self._instruments = runtime.workers, runtime.clock, runtime.instruments
        self._read: list[SourceNews] = []
        """Stored, and not passed on yet."""
        self._log = structlog.get_logger("pollerd.signals")

    async def store_unchanged(self, source: SignalSource, asked_at: float) -> None:
        """Notes that a source says nothing new. asked_at: of its poll, epoch s. Raises DatabaseUnavailableError."""
        now = self._clock()
        await self._end(source, now)
        self._read.append(SourceNews(source.id, asked_at, (), (), noted_at=now))

    async def store(
        self,
        source: SignalSource,
        document: SignalDocument,
        report: Callable[[Exception], None],
        asked_at: float | None = None,
    ) -> ListedChanges | None:
        """Stores what a document says, and returns it; None if it is none of the source's kind. May be repeated: what
        is stored is no news.

        report: called with the error of a document that breaks a parser. asked_at: epoch s, of the poll, after which
        the source may have said more; None: now. All of a reading is passed on at once. Raises
        DatabaseUnavailableError: what was stored until then is passed on, and the reading is not over.
        """
        now = self._clock()
        changes = await self._changes(source, document, report)
        if changes is None:
            self._instruments.signal_reads["failed"].inc()
            reason = _("it is no {kind}, or lists nothing", kind=source.spec.kind)
            self._log.warning("signals_unreadable", source_id=source.id, url=source.url, reason=reason)
            return None
        reading = _Reading()
        try:
            await self._store_pieces(source, changes, reading, now, later_only=document.pushed)
            if changes.complete and not document.pushed:
                reading.left += await self._store.speak_only_for(source.id, changes.pages.keys())
            signals = len(reading.signals)
            self._instruments.signals[source.spec.kind].inc(signals)
            await self._end(source, now, signals, in_words(changes, signals))
            reading.ended = True
        finally:
            self._read.append(reading.news(source.id, now if asked_at is None else asked_at, now))
        return changes

    async def _store_pieces(
        self, source: SignalSource, changes: ListedChanges, reading: _Reading, now: float, *, later_only: bool
    ) -> None:
        """Stores what is said of pages, and adds what is news to the reading."""
        undated_is_news = self._sources.was_read(source.id)
        listed = [ListedDate(url, date) for url, date in changes.pages.items() if url != source.url]
        for start in range(0, len(listed), PIECE):
            piece = listed[start : start + PIECE]
            news, joined = await self._store.note(
                source.id, piece, now, undated_is_news=undated_is_news, later_only=later_only
            )
            reading.signals += news
            reading.joined += joined

    async def pass_on(self) -> None:
        """Passes what was stored to the allocator. If the database does not answer, the next call does."""
        news, self._read = self._read, []
        try:
            await self._sources.take(news)
        except DatabaseUnavailableError as error:
            self._read = [*news, *self._read]
            self._log.warning("signals_put_off", reason=str(error))

    async def _changes(
        self, source: SignalSource, document: SignalDocument, report: Callable[[Exception], None]
    ) -> ListedChanges | None:
        """Reads the document; None if it is none of its kind."""
        arguments = (source.spec.kind, document.body, document.content_type, document.base, source.spec.hosts)
        try:
            if not document.is_long:
                return read_changes(*arguments)
            effort = Effort(host_of(document.base), patience=LIST_SECONDS)
            return await self._workers.do(read_changes, *arguments, effort=effort)
        except Exception as error:  # noqa: BLE001
            # Documents are untrusted: one that breaks a parser affects only its own source.
            report(error)
            return None

    async def _end(self, source: SignalSource, now: float, signals: int = 0, detail: str | None = None) -> None:
        await self._store.end_read(source.id, now, signals=signals, detail=detail)
        self._instruments.signal_reads["changed" if signals else "unchanged"].inc()


def in_words(changes: ListedChanges, signals: int) -> str:
    """Returns what a document said, as one line for users."""
    counts = (
        (changes.foreign, _("skipped: of another host")),
        (changes.unusable, _("skipped: not a usable URL")),
    )
    parts = [
        n_(
            "{count} signal of {urls:,} URLs",
            "{count} signals of {urls:,} URLs",
            signals,
            urls=len(changes.pages),
        )
    ]
    return "; ".join([*parts, *(f"{number:,} {what}" for number, what in counts if number)])


# Readings of indexes: the sitemaps listed in them, kept until sites are made of them.

_MAX_WAITING = 1_000


@dataclass(frozen=True, slots=True)
class IndexReading:
    """What the last reading of a source said of further sitemaps: normalised URLs, in the order of the index."""

    source: SignalSource
    sitemaps: tuple[str, ...]
    complete: bool
    """Whether it lists all: one that is not there any more has left."""


class IndexReadings:
    """Keeps the last reading of each index; the older one is void."""

    def __init__(self) -> None:
        self._waiting: dict[int, IndexReading] = {}
        self._arrived = asyncio.Event()

    def put(self, source: SignalSource, sitemaps: tuple[str, ...], complete: bool) -> None:
        """Takes a reading. One without sitemaps counts, too: it may have been an index before.

        Sitemaps within a sitemap that an index lists are left alone: an index of indexes is none.
        """
        if source.spec.kind != "sitemap" or source.origin is SignalOrigin.INDEX:
            return
        if source.id in self._waiting or len(self._waiting) < _MAX_WAITING:
            self._waiting[source.id] = IndexReading(source, sitemaps, complete)
            self._arrived.set()

    async def next(self) -> IndexReading:
        """Returns the reading that waits longest, once there is one."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.pop(next(iter(self._waiting)))


class SignalReader:
    """Reads the polls of signal sources: stores what they say before they are committed, and then passes it on.

    So a poll that is not committed is repeated, and says nothing twice: what it said is stored.
    """

    def __init__(
        self,
        *,
        sources: SignalSources,
        documents: DocumentSignals,
        indexes: IndexReadings,
        note_hub: Callable[[SignalSource, Outcome, str], Awaitable[None]] | None,
        faults: Faults,
    ) -> None:
        """note_hub: notes the hub that a full answer at a normalised URL offers; None if no hub is subscribed to."""
        self._indexes = indexes
        self._sources, self._documents, self._note_hub, self._faults = sources, documents, note_hub, faults

    async def store_signals(self, results: Sequence[Found]) -> None:
        """Stores what the polls of signal sources say. Raises DatabaseUnavailableError; may be repeated."""
        for result in results:
            source = self._sources.of_site(result.site_id)
            is_full = result.outcome.kind in (OutcomeKind.BODY, OutcomeKind.NOT_MODIFIED)
            if source is not None and is_full and not result.signals_stored:
                await self._store_signals_of(source, result)

    def with_dates(self, results: Sequence[Found]) -> Sequence[Found]:
        """Returns the results with the dates that sources gave of their sites' changes since the polls before."""
        slots = np.array([result.slot for result in results], np.int64)
        dates, believed = self._sources.announced(slots, np.array([result.site_id for result in results], np.int64))
        out = list(results)
        for i in np.flatnonzero(~np.isnan(dates)).tolist():
            out[i] = replace(out[i], dated_at=float(dates[i]), date_believed=bool(believed[i]))
        return out

    def is_long(self, result: Found) -> bool:
        """Returns whether the poll is one of a signal source, and its list so long that no other poll waits for it."""
        if result.outcome.kind is not OutcomeKind.BODY:
            return False
        return self._sources.of_site(result.site_id) is not None and _document(result).is_long

    async def store_long(self, result: Found) -> Found:
        """Stores what a long list says, and returns the poll as one of which that is stored; raises as
        `store_signals`.
        """
        await self.store_signals([result])
        return replace(result, signals_stored=True)

    async def apply_committed(self) -> None:
        """Passes what was stored to the allocator. If the database does not answer, the next call does."""
        await self._documents.pass_on()

    async def _store_signals_of(self, source: SignalSource, result: Found) -> None:
        outcome = result.outcome
        if outcome.kind is OutcomeKind.NOT_MODIFIED:
            # A poll that was under way when its site became a source may be conditional: its list is still to be read.
            if self._sources.was_read(source.id):
                await self._documents.store_unchanged(source, outcome.started_at)
            return
        document = _document(result)
        report = partial(self._faults.report, result.context)
        read = await self._documents.store(source, document, report, outcome.started_at)
        if read is None:
            return
        self._indexes.put(source, read.sitemaps, read.complete)
        if self._note_hub is not None:
            await self._note_hub(source, outcome, document.base)


def _document(result: Found) -> SignalDocument:
    outcome = result.outcome
    base = outcome.redirects[-1].url if outcome.redirects else result.context.url
    return SignalDocument(outcome.body or b"", outcome.content_type, base)


# Children of an index: sites and signal sources are made of its sitemaps, and removed when they leave it.

MAX_CHILDREN = 500
"""Sitemaps of one index that become sites: the first ones."""


class IndexChildren:
    """Brings the sitemaps of each index in step with its last reading, one index at a time."""

    def __init__(
        self,
        *,
        readings: IndexReadings,
        store: SignalStore,
        control: SignalControl,
        add_sites: Callable[[Sequence[SiteSpec]], Awaitable[AddResult]],
        discard_sites: Callable[[Sequence[int]], Awaitable[None]],
    ) -> None:
        """add_sites: leaves out what a user deleted; discard_sites: deletes without marking URLs as deleted."""
        self._readings, self._store, self._control = readings, store, control
        self._add_sites, self._discard_sites = add_sites, discard_sites
        self._log = structlog.get_logger("pollerd.signals")

    async def run(self) -> None:
        """Follows the readings until cancelled; sleeps while there is none."""
        await self._retried(self._remove_orphans)
        while True:
            reading = await self._readings.next()
            await self._retried(partial(self.apply, reading))

    async def _retried(self, call: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await call()
            except DatabaseUnavailableError as error:
                self._log.warning("sitemaps_put_off", reason=str(error))
                await asyncio.sleep(RETRY_CAP_SECONDS)
            else:
                return

    async def apply(self, reading: IndexReading) -> None:
        """Adds the sitemaps that are new in an index; removes those that left it, and those of indexes that are gone.

        Raises DatabaseUnavailableError; a repeated call does the rest.
        """
        sources = await self._remove_orphans()
        if reading.source.id not in {source.id for source in sources}:
            return
        children = [source for source in sources if source.index_id == reading.source.id]
        listed = reading.sitemaps[:MAX_CHILDREN]
        left = [candidate for candidate in children if reading.complete and candidate.url not in reading.sitemaps]
        for child in left:
            await self._remove(child)
        known = {source.url for source in sources}
        room = max(MAX_CHILDREN - len(children) + len(left), 0)
        added = [url for url in listed if url not in known][:room]
        made = [url for url in added if await self._add(reading.source, url)]
        if made or left:
            self._log.info("sitemaps_followed", source_id=reading.source.id, added=len(made), removed=len(left))
        over = len(reading.sitemaps) - len(listed)
        if over > 0 and made:
            self._log.warning("sitemaps_skipped", source_id=reading.source.id, sitemaps=over, limit=MAX_CHILDREN)

    async def _add(self, index: SignalSource, url: str) -> bool:
        """Adds a sitemap's site, if it is none, and makes it a signal source."""
        result = await self._add_sites([SiteSpec(url)])
        made_site = bool(result.added)
        site_id = next((site_id for site_id, *_more in (*result.added, *result.existing)), None)
        if site_id is None:  # a user deleted it, or the allocator cannot hold it
            return False
        spec = SignalSourceSpec("sitemap", site_id, hosts=index.spec.hosts)
        try:
            await self._control.add_child(spec, index_id=index.id, made_site=made_site)
        except (DuplicateError, InvalidValueError):  # it is one already, or its site went meanwhile
            return False
        return True

    async def _remove_orphans(self) -> list[SignalSource]:
        """Removes sitemaps of indexes that are no signal sources any more; returns the sources that stay."""
        sources, stay = await self._store.all(), list[SignalSource]()
        source_ids = {None, *(source.id for source in sources)}
        for sitemap in sources:
            if sitemap.index_id in source_ids:
                stay.append(sitemap)
            else:
                await self._remove(sitemap)
        return stay

    async def _remove(self, child: SignalSource) -> None:
        if child.made_site and child.spec.site_id is not None:
            await self._discard_sites([child.spec.site_id])  # with what it is as a signal source
            self._control.forget(child)
            return
        with contextlib.suppress(NotFoundError):
            await self._control.remove(child.id)
