"""Control of the running daemon's signal sources, and reports of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pollerd.allocation.evidence import SourceQuality
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.signals import SignalSources, SourceNews
from pollerd.errors import DuplicateError, InvalidValueError, TooManyError
from pollerd.limits import REPORT_COST, LeakyBuckets
from pollerd.lists.sitemaps import newer
from pollerd.storage.signals import (
    ListedDate,
    ListedSignalSource,
    SignalOrigin,
    SignalSource,
    SignalSourceSpec,
    SignalStore,
)
from pollerd.texts import N_, _, n_

# Signal sources that a list or an export names.


@dataclass(slots=True)
class SignalSourcesSet:
    """What became of signal sources that were named, by URL or name."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Their URLs are those of no sites."""


async def set_signal_sources(
    store: SignalStore,
    control: SignalControl,
    listed: Sequence[ListedSignalSource],
    *,
    origin: SignalOrigin,
    on_change: Callable[[SignalSource], None],
) -> SignalSourcesSet:
    """Adds those that are not there, and sets kind, hosts and origin of the others.

    on_change: called for each that was set. origin: of those that are added. A file takes over those that it names, and
    removes those that it no longer names; an export neither. Raises DatabaseUnavailableError; may be repeated.
    """
    result, existing = SignalSourcesSet(), {source.key: source for source in await store.all()}
    sites = await store.sites_at([source.url for source in listed if source.url is not None])
    for source in listed:
        known = existing.get(source.key)
        if known is None:
            site_id = None if source.url is None else sites.get(source.url)
            if source.url is not None and site_id is None:
                result.refused.append(source.url)
                continue
            await control.add(SignalSourceSpec(source.kind, site_id, source.name, source.hosts), origin=origin)
            result.added.append(source.key)
            continue
        kept_origin = origin if origin is SignalOrigin.FILE else known.origin
        if (known.spec.kind, known.spec.hosts, known.origin) != (source.kind, source.hosts, kept_origin):
            on_change(await store.change(known.id, source.kind, source.hosts, kept_origin))
            result.changed.append(source.key)
    if origin is SignalOrigin.FILE:
        named = {source.key for source in listed}
        for key, known in existing.items():
            if known.origin is SignalOrigin.FILE and key not in named:
                await control.remove(known.id)
                result.removed.append(key)
    return result


MAX_ADDED = 10_000
"""Signal sources up to which reports may add others."""
_MAX_AT_ONCE, _PER_SECOND = 50_000, 500
"""URLs that reports may name at once and in the long run."""


class SignalControl:
    """Changes signal sources: first in the database, then in memory."""

    def __init__(
        self,
        *,
        store: SignalStore,
        sources: SignalSources,
        scheduler: SchedulerState,
        on_delete: Callable[[SignalSource], None],
        runtime: Runtime,
    ) -> None:
        """on_delete: called after a source was deleted; its hub is left then."""
        self._store, self._sources, self._scheduler, self._on_delete = store, sources, scheduler, on_delete
        self._clock, self._instruments = runtime.clock, runtime.instruments
        self._limit = LeakyBuckets(_MAX_AT_ONCE, _PER_SECOND)

    async def add(self, spec: SignalSourceSpec, *, origin: SignalOrigin = SignalOrigin.API) -> SignalSource:
        """Adds a signal source; its site is polled soon. Raises DuplicateError, InvalidValueError."""
        source = await self._store.add(spec, self._clock(), origin=origin)
        await self._follow(source)
        return source

    async def _follow(self, source: SignalSource) -> None:
        self._sources.follow(source)
        await self._sources.agree()
        site_id = source.spec.site_id
        slot = None if site_id is None else self._scheduler.sites.slot_of(site_id)
        if slot is not None:
            self._scheduler.poll_soon(slot)
            self._scheduler.due.set()

    async def add_child(self, spec: SignalSourceSpec, *, index_id: int, made_site: bool) -> SignalSource:
        """Adds a sitemap that stands in the index of another source; raises as `add` does."""
        source = await self._store.add(
            spec, self._clock(), origin=SignalOrigin.INDEX, index_id=index_id, made_site=made_site
        )
        await self._follow(source)
        return source

    async def delete(self, source_id: int) -> None:
        """Deletes a signal source; its site, if it has one, is polled as before.

        Raises NotFoundError, and InvalidValueError for one that the list names.
        """
        source = await self._store.get(source_id)
        if source.origin is SignalOrigin.FILE:
            raise InvalidValueError(
                "source_id", _("of one that the list does not name: it says which there are"), source_id
            )
        await self.remove(source_id)

    async def put_from_file(self, listed: Sequence[ListedSignalSource]) -> SignalSourcesSet:
        """Makes the signal sources of the list these; others stay. Raises DatabaseUnavailableError; may be repeated."""
        return await set_signal_sources(
            self._store, self, listed, origin=SignalOrigin.FILE, on_change=self._sources.change
        )

    async def restore(self, listed: Sequence[ListedSignalSource]) -> SignalSourcesSet:
        """Adds or changes signal sources of an export; those whose sites are not there are left out."""
        return await set_signal_sources(
            self._store, self, listed, origin=SignalOrigin.API, on_change=self._sources.change
        )

    async def remove(self, source_id: int) -> None:
        """Deletes a signal source, wherever it comes from. Raises NotFoundError."""
        source = await self._store.get(source_id)
        await self._store.delete(source_id)
        self.forget(source)

    def forget(self, source: SignalSource) -> None:
        """Forgets a signal source that is gone from the database."""
        self._sources.forget(source.id)
        self._on_delete(source)

    async def report(self, name: str, reports: Sequence[ListedDate]) -> tuple[int, int]:
        """Takes what a program says of URLs, normalised; returns how many were news, and how many were not.

        Others were said before, or are no sites. Evidence, never a command: the polls come when the allocator decides.
        Raises TooManyError before anything is looked up, InvalidValueError for a name that is no signal source.
        """
        self.take_urls(len(reports))
        return await self._take(await self._store.named(name), reports)

    async def report_as(self, name: str, listed: Sequence[ListedDate]) -> None:
        """Takes a report of a pushed source, which is added if it is new; its URLs were counted by `take_urls`.

        Raises TooManyError if there are too many sources to add one, DatabaseUnavailableError.
        """
        try:
            source_id = await self._store.named(name)
        except InvalidValueError:
            if len(self._sources) >= MAX_ADDED:
                raise TooManyError(N_("signal sources"), 3_600.0) from None
            try:
                source_id = (await self.add(SignalSourceSpec("push", name=name, hosts="any"))).id
            except DuplicateError as error:  # another node, or call, was faster
                source_id = error.existing_id
        await self._take(source_id, listed)

    def take_urls(self, urls: int) -> None:
        """Counts the URLs of a report. Raises TooManyError; they are not counted then."""
        wait = self._limit.take(self._clock(), units=max(urls, REPORT_COST))
        if wait > 0:
            self._instruments.signal_reports_refused.inc()
            raise TooManyError(N_("signals"), wait)

    async def _take(self, source_id: int, reports: Sequence[ListedDate]) -> tuple[int, int]:
        newest = dict[str, float | None]()
        for report in reports:
            newest[report.url] = newer(report.date, newest.get(report.url))
        now = self._clock()
        listed = [ListedDate(url, date) for url, date in newest.items()]
        news, joined = await self._store.reported(source_id, listed, now)
        await self._store.end_read(
            source_id, now, signals=len(news), detail=n_("{count} signal", "{count} signals", len(news))
        )
        self._instruments.signals["push"].inc(len(news))
        await self._sources.take([SourceNews(source_id, now, tuple(news), tuple(joined))])
        return len(news), len(reports) - len(news)

    def quality(self, source_id: int) -> SourceQuality | None:
        """Returns what the allocator learned of a source; None if it does not know it or uses no signals."""
        return self._scheduler.allocator.source_quality(source_id)
