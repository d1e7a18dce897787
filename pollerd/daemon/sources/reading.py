"""Reads one source and brings its sites in step. Loaded when the first source is due."""

from __future__ import annotations

from typing import NamedTuple

import structlog

from pollerd.crawling.sources.interval import FIRST_SECONDS, MOST_SECONDS, next_interval
from pollerd.daemon.polling.outage_filter import OutageFilter
from pollerd.daemon.sources.documents import DocumentFetcher
from pollerd.daemon.sources.membership import Applied, SourceMembership, left_out_in_words
from pollerd.daemon.sources.walk import SourceReading, SourceWalk
from pollerd.daemon.state.runtime import Runtime
from pollerd.errors import DatabaseUnavailableError, NotFoundError
from pollerd.scheduling import backoff_seconds, lengthened
from pollerd.storage import Source, SourceRead, SourceStore

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
            self._log.error("source_set_aside", source=source.id, url=source.spec.url, exc_info=error)
            self._instruments.site_faults.inc()
            reading = SourceReading(trouble=f"a fault of ours: {type(error).__name__}", failed=True)
            return _Ended(Applied(doubt=reading.trouble), reading)

    def _end_of(self, source: Source, ended: _Ended) -> SourceRead:
        applied, reading = ended
        spec, now = source.spec, self._clock()
        whole = not applied.doubt
        pace = next_interval(spec.kind, source.pace, news=applied.news) if not reading.failed else source.pace
        interval = spec.interval or pace or FIRST_SECONDS[spec.kind]
        if reading.trouble:
            cap = min(interval, MOST_SECONDS[spec.kind])
            own = backoff_seconds(source.failures + 1, min(_RETRY_SECONDS, cap), cap, self._runtime.rng)
            interval = lengthened(own, reading.retry_after, max(cap, MOST_SECONDS[spec.kind]))
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
            detail=words or "nothing new",
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
        say = self._log.warning if read.failures or applied.vanished else self._log.info
        say("source_read", source=source.id, url=source.spec.url, result=kind, detail=read.detail)
