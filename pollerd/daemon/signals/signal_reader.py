"""Reads signals from the polls of sites that are signal sources."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from pollerd.daemon.signals.document_signals import DocumentSignals, SignalDocument
from pollerd.daemon.signals.index_readings import IndexReadings
from pollerd.daemon.signals.signal_sources import SignalSources
from pollerd.daemon.state.faults import Faults
from pollerd.daemon.state.poll_result import PollResult
from pollerd.model import Outcome, OutcomeKind
from pollerd.storage import SignalSource


class NotesHubs(Protocol):
    """Notes which hubs the answers of sources offer."""

    async def note(self, source: SignalSource, outcome: Outcome, base: str) -> None:
        """Notes the hub that a full answer at the normalised URL `base` offers. Raises DatabaseUnavailableError."""


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
        hubs: NotesHubs | None,
        faults: Faults,
    ) -> None:
        """hubs: None if no hub is subscribed to."""
        self._indexes = indexes
        self._sources, self._documents, self._hubs, self._faults = sources, documents, hubs, faults

    async def store_signals(self, results: Sequence[PollResult]) -> None:
        """Stores what the polls of signal sources say. Raises DatabaseUnavailableError; may be repeated."""
        if not len(self._sources):
            return
        for result in results:
            source = self._sources.of_site(result.site_id)
            is_full = result.outcome.kind in (OutcomeKind.BODY, OutcomeKind.NOT_MODIFIED)
            if source is not None and is_full and not result.signals_stored:
                await self._store_signals_of(source, result)

    def with_dates(self, results: Sequence[PollResult]) -> Sequence[PollResult]:
        """Returns the results with the dates that sources gave of their sites' changes since the polls before."""
        if not len(self._sources):
            return results
        slots = np.array([result.slot for result in results], np.int64)
        dates, believed = self._sources.announced(slots, np.array([result.site_id for result in results], np.int64))
        out = list(results)
        for i in np.flatnonzero(~np.isnan(dates)).tolist():
            out[i] = replace(out[i], dated_at=float(dates[i]), date_believed=bool(believed[i]))
        return out

    def is_long(self, result: PollResult) -> bool:
        """Returns whether the poll is one of a signal source, and its list so long that no other poll waits for it."""
        if not len(self._sources) or result.outcome.kind is not OutcomeKind.BODY:
            return False
        return self._sources.of_site(result.site_id) is not None and _document(result).is_long

    async def store_long(self, result: PollResult) -> PollResult:
        """Stores what a long list says, and returns the poll as one of which that is stored; raises as
        `store_signals`.
        """
        await self.store_signals([result])
        return replace(result, signals_stored=True)

    async def apply_committed(self) -> None:
        """Passes what was stored to the allocator. If the database does not answer, the next call does."""
        if len(self._sources):
            await self._documents.pass_on()

    async def _store_signals_of(self, source: SignalSource, result: PollResult) -> None:
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
        if self._hubs is not None:
            await self._hubs.note(source, outcome, document.base)


def _document(result: PollResult) -> SignalDocument:
    outcome = result.outcome
    base = outcome.redirects[-1].url if outcome.redirects else result.context.url
    return SignalDocument(outcome.body or b"", outcome.content_type, base)
