"""Reads documents of signal sources, stores what they say, and keeps it until it is passed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from msgspec import Struct

from pollerd.crawling.sources.listed_dates import ListedChanges, read_changes
from pollerd.daemon.process.workers import LIST_SECONDS, Effort
from pollerd.daemon.signals.signal_sources import SignalSources, SourceNews
from pollerd.daemon.state.runtime import Runtime
from pollerd.errors import DatabaseUnavailableError
from pollerd.quantities import counted
from pollerd.storage import ListedDate, SignalSource, SignalStore, StoredSignal
from pollerd.urls import host_of

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
            detail = f"is no {source.spec.kind}, or lists nothing"
            self._log.warning("signals_unreadable", source=source.id, url=source.url, detail=detail)
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
        given = (source.spec.kind, document.body, document.content_type, document.base, source.spec.hosts)
        try:
            if not document.is_long:
                return read_changes(*given)
            effort = Effort(host_of(document.base), patience=LIST_SECONDS)
            return await self._workers.do(read_changes, *given, effort=effort)
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
        (changes.foreign, "left out: of another host"),
        (changes.unusable, "left out: not a usable URL"),
    )
    parts = [f"{counted(signals, 'signal')} of {len(changes.pages):,} URLs"]
    return "; ".join([*parts, *(f"{number:,} {what}" for number, what in counts if number)])
