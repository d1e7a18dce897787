"""Brings the sites in step with a reading of their source, in pieces, each of which is committed by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pollerd.crawling.sources.difference import ListedDifference, difference, doubt
from pollerd.daemon.sources.walk import SourceReading, listed_in
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import SiteSpec
from pollerd.quantities import counted
from pollerd.storage import AddResult, Member, Source, SourceStore

PIECE = 1_000
"""Sites in one transaction: small enough for commits of polls to run in between."""


class SiteAdder(Protocol):
    """What the control of sites offers to sources."""

    async def add(
        self, specs: Sequence[SiteSpec], *, respect_deleted: bool = False, source: int | None = None
    ) -> AddResult:
        """Adds sites that the source lists."""

    async def agree(self, site_ids: Sequence[int]) -> None:
        """Takes sites into memory as they are stored."""


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
            (self.existing, "there before"),
            (self.vanished, "vanished"),
            (self.paused, "paused"),
            (self.returned, "returned"),
            (self.deleted, "left out: deleted by a user"),
            (self.over_limit, "left out: over the limit"),
            (self.refused, f"refused: {self.reason}"),
        )
        said = [f"{number:,} {what}" for number, what in counts if number]
        return "; ".join([*([f"no page is taken as vanished: {self.doubt}"] if self.doubt else []), *said])


class SourceMembership:
    """Adds, pauses and resumes the sites of sources: first in the database, then in memory."""

    def __init__(
        self, *, store: SourceStore, sites: SiteAdder, scheduler: SchedulerState, clock: Callable[[], float]
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
            await self._sites.agree(ids[start : start + PIECE].tolist())
        self._unsure.discard(source_id)

    async def _apply(self, source: Source, reading: SourceReading, members: Sequence[Member]) -> Applied:
        known = {member.url: member.joined for member in members}
        listed = [*reading.pages, *listed_in(reading.unchanged, list(known))]
        found = difference(known, listed)
        done = Applied()
        done.doubt = reading.trouble or doubt(reading.entries, source.entries, source.spec.most_shrink) or ""
        await self._join(source, found, sum(known.values()), done)
        for piece in _pieces(found.returned):
            async with self._scheduler.changing_sites:
                ids = await self._store.come_back(source.id, piece, self._clock())
                self._pause(ids, False)
                self._scheduler.end_backoffs(ids)
            done.returned += len(piece)
        for piece in _pieces(() if done.doubt else found.vanished):
            async with self._scheduler.changing_sites:
                ids = await self._store.vanish(source.id, piece, self._clock())
                self._pause(ids, True)
            done.vanished, done.paused = done.vanished + len(piece), done.paused + len(ids)
        self._scheduler.due.set()
        return done

    async def _join(self, source: Source, found: ListedDifference, present: int, done: Applied) -> None:
        spec = source.spec
        room = max(spec.site_limit - present - len(found.returned), 0)
        left = list(found.joined)
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
    said = []
    if reading.unusable:
        said.append(f"{counted(reading.unusable, 'URL')} cannot be used")
    if reading.foreign:
        said.append(f"{counted(reading.foreign, 'page')} of other hosts left out")
    return "; ".join(said)


def _pieces(urls: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(urls), PIECE):
        yield urls[start : start + PIECE]
