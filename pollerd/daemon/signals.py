"""Signal sources in memory, whose signals are passed to the allocator; their yield; the settings of signals."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence, Sized
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import ELSEWHERE
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.unchanged import note_unchanged
from pollerd.daemon.views import SignalYieldView
from pollerd.storage.signals import SignalSource, SignalStore, StoredSignal, waits
from pollerd.telemetry import Instruments

_NONE = np.empty(0, np.int64)
_BELIEVED = 0.9
"""Least say of a source that is taken at its word."""
_CLOCKS_DIFFER_SECONDS = 60.0
"""How much the clocks of nodes may differ: so far back signals of others are looked for."""


@dataclass(slots=True)
class _Known:
    source: SignalSource
    read: bool
    """Whether it was ever read: what it says of a page without a date is news only after that."""
    site_ids: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    """Sites of which it spoke, int64[k], ascending; some may be gone, or another node's."""
    slots: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    """Their slots when the allocator was last given them, int64[k]; -1: not here."""
    passed_at: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """When the signal of each that was passed on last was news, float64[k] epoch s; -inf: none was."""
    seen_until: float = -np.inf
    """Signals that were news until then were looked for in the database, epoch s."""
    noted_at: float = -np.inf
    """When its last reading was stored that was passed on, epoch s."""

    def set_sites(self, site_ids: NDArray[np.int64], slots: NDArray[np.int64], passed_at: NDArray[np.float64]) -> None:
        """Sets the sites of which it speaks, in any order."""
        order = np.argsort(site_ids)
        self.site_ids, self.slots, self.passed_at = site_ids[order], slots[order], passed_at[order]


@dataclass(frozen=True, slots=True)
class SourceNews:
    """What one reading of a source brought: signals, and of which sites it spoke for the first time.

    at: epoch s, until when the source told what there was to tell.
    """

    source_id: int
    at: float
    signals: tuple[StoredSignal, ...]
    joined: tuple[int, ...]
    left: tuple[int, ...] = ()
    """Ids of sites of which it no longer speaks."""
    ended: bool = True
    """Whether the whole reading is here; False: the database failed in between, and the rest may come."""
    noted_at: float = -np.inf
    """When the reading was stored, if later, epoch s: the database has it as the time of the last one."""


class SignalSources:
    """Keeps the allocator's knowledge of signal sources in step with the sites and with the database.

    A daemon without signal sources does nothing here. What sources said is in the database before it is passed on.
    """

    def __init__(self, *, store: SignalStore, scheduler: SchedulerState) -> None:
        self._store, self._scheduler = store, scheduler
        self.known: dict[int, _Known] = {}
        """The sources by id."""
        self._by_site: dict[int, int] = {}
        """Id of a polled site -> id of the signal source that it is."""
        self._pushed = frozenset[int]()
        """Ids of sources whose hub says what is new, so that their polls are not needed for that."""
        self._admissions = -1
        self._allocator = scheduler.allocator

    def announced(
        self, slots: NDArray[np.int64], site_ids: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Returns of sites int64[k], by their slots int64[k], the latest dates that sources gave of changes since their
        polls before, float64[k] epoch s, nan: none, or the site is gone; and whether a believed one did, bool[k].
        """
        dates, say = np.full(len(slots), np.nan), np.zeros(len(slots))
        present = self._scheduler.sites.site_id[slots] == site_ids
        dates[present], say[present] = self._scheduler.allocator.announced(slots[present])
        return dates, say >= _BELIEVED

    def __len__(self) -> int:
        """Returns the number of signal sources."""
        return len(self.known)

    async def load(self) -> None:
        """Loads all sources from the database; signals that wait for a poll are passed to the allocator again."""
        for source in await self._store.all():
            self.follow(source, await self._stored_sites(source.id))
        await self.agree()

    def follow(self, source: SignalSource, site_ids: NDArray[np.int64] = _NONE) -> None:
        """Takes in a source that speaks for these sites, int64[k]; `agree` makes it known to the allocator."""
        if source.spec.site_id is not None:
            self._by_site[source.spec.site_id] = source.id
            if source.last_read_at is None:
                self._scheduler.unread_sources.add(source.spec.site_id)
        known = _Known(source, source.last_read_at is not None)
        known.set_sites(site_ids, np.full(len(site_ids), -1, np.int64), np.full(len(site_ids), -np.inf))
        self.known[source.id] = known
        self._admissions = -1

    def change(self, source: SignalSource) -> None:
        """Takes in other settings of a source; unknown ones are ignored."""
        known = self.known.get(source.id)
        if known is not None:
            known.source = source

    def forget(self, source_id: int) -> None:
        """Forgets a source. Unknown ones are ignored."""
        known = self.known.pop(source_id, None)
        if known is not None:
            self._by_site.pop(known.source.spec.site_id or 0, None)
            self._scheduler.unread_sources.discard(known.source.spec.site_id or 0)
            self._scheduler.remove_source(source_id)

    def of_site(self, site_id: int) -> SignalSource | None:
        """Returns the source that is read from this site's polls, if any."""
        source_id = self._by_site.get(site_id)
        return None if source_id is None else self.known[source_id].source

    def set_pushed(self, source_ids: Collection[int]) -> None:
        """Takes in which sources hubs push; the allocator knows the others as polled, as they were."""
        before, self._pushed = self._pushed, frozenset(source_ids)
        for source_id in before ^ self._pushed:
            if source_id in self.known:
                self._introduce(self.known[source_id])

    def knows(self, source_id: int) -> bool:
        """Returns whether there is such a source, as far as is known here."""
        return source_id in self.known

    def was_read(self, source_id: int) -> bool:
        """Returns whether the source was ever read; False for an unknown one."""
        return source_id in self.known and self.known[source_id].read

    async def agree(self) -> None:
        """Makes the sources known to the allocator, if sites came or it was replaced since the last call.

        For sites that came here since then, the signals that wait for a poll are passed on. Raises
        DatabaseUnavailableError; the next call does the rest.
        """
        if not self.known or self._scheduler.admissions == self._admissions:
            return
        admissions = self._scheduler.admissions
        if self._allocator is not self._scheduler.allocator:
            # Another one knows nothing of what was passed on before.
            self._allocator = self._scheduler.allocator
            for known in self.known.values():
                known.slots = np.full(len(known.site_ids), -1, np.int64)
        for source_id in list(self.known):
            await self._agree(source_id)
        self._admissions = admissions

    async def adopt(self, source_ids: Collection[int] | None) -> None:
        """Takes in what other nodes stored of these sources, and of what they said; None: of all.

        Raises DatabaseUnavailableError; may be repeated.
        """
        sources = await (self._store.all() if source_ids is None else self._store.some(source_ids))
        stored = {row.id: row for row in sources}
        for source_id in sorted(stored.keys() | self.known.keys() if source_ids is None else source_ids):
            source = stored.get(source_id)
            if source is None:
                self.forget(source_id)
            elif source_id not in self.known:
                self.follow(source, await self._stored_sites(source_id))
            else:
                await self._adopt(self.known[source_id], source)
        await self.agree()

    async def _adopt(self, known: _Known, source: SignalSource) -> None:
        """Takes in what a known source said, if that was passed on by another node's reading."""
        known.source = source
        joined, left = _NONE, _NONE
        if await self._store.sum_of_sites(source.id) != (len(known.site_ids), int(known.site_ids.sum())):
            now = await self._stored_sites(source.id)
            joined, left = np.setdiff1d(now, known.site_ids), np.setdiff1d(known.site_ids, now)
        signals = await self._store.said_since(source.id, known.seen_until - _CLOCKS_DIFFER_SECONDS)
        waiting = tuple(signal for signal in signals if self._waits(signal))
        known.seen_until = max((signal.signalled_at or 0.0 for signal in signals), default=known.seen_until)
        read_at = source.last_read_at
        if len(joined) or len(left) or waiting or (read_at is not None and read_at > known.noted_at):
            news = SourceNews(source.id, read_at or 0.0, waiting, tuple(joined.tolist()), tuple(left.tolist()))
            await self.take([news])

    async def _stored_sites(self, source_id: int) -> NDArray[np.int64]:
        """Returns the ids of the sites for which the source speaks in the database, ascending."""
        return np.array([row.site_id for row in await self._store.said(source_id)], np.int64)

    async def take(self, news: Sequence[SourceNews]) -> None:
        """Passes committed news on, with the sign that their sources were read. Raises as `agree` does."""
        for item in news:
            known = self.known.get(item.source_id)
            if known is not None and (item.joined or item.left):
                self._speak_for(known, item)
        await self.agree()
        for item in news:
            known = self.known.get(item.source_id)
            if known is not None:
                self._pass_on(known, item.signals)
                if not item.ended:
                    continue
                self._scheduler.source_fetched(item.source_id, item.at)
                known.noted_at = max(known.noted_at, item.at, item.noted_at)
                known.read = True
                self._scheduler.unread_sources.discard(known.source.spec.site_id or 0)

    def _speak_for(self, known: _Known, news: SourceNews) -> None:
        """Makes known to the allocator of which sites more, and of which no longer, a source speaks."""
        slots_of = self._scheduler.sites.slots_of
        stay = ~np.isin(known.site_ids, np.array(news.left, np.int64))
        fresh = np.setdiff1d(np.array(news.joined, np.int64), known.site_ids)
        # Slots of sites that were removed may be another's by now. What is not here yet is passed on by `_agree`.
        before = np.where(known.slots < 0, -1, slots_of(known.site_ids))
        # Signals of the new ones are passed on by the caller: here they are taken as present.
        known.set_sites(
            np.concatenate([known.site_ids[stay], fresh]),
            np.concatenate([before[stay], slots_of(fresh)]),
            np.concatenate([known.passed_at[stay], np.full(len(fresh), -np.inf)]),
        )
        self._introduce(known)

    async def _agree(self, source_id: int) -> None:
        known = self.known[source_id]
        now_here = self._scheduler.sites.slots_of(known.site_ids)
        came = set(known.site_ids[(now_here >= 0) & (known.slots < 0)].tolist())
        waiting = [row for row in await self._store.said(source_id) if row.site_id in came] if came else []
        if self.known.get(source_id) is not known:  # forgotten meanwhile
            return
        known.slots = self._scheduler.sites.slots_of(known.site_ids)
        known.passed_at[np.isin(known.site_ids, np.array(sorted(came), np.int64))] = -np.inf
        self._introduce(known)
        self._pass_on(known, [signal for signal in waiting if self._waits(signal)])

    def _introduce(self, known: _Known) -> None:
        site_id = known.source.spec.site_id
        polled_as = None
        if site_id is not None and known.source.id not in self._pushed:
            slot = self._scheduler.sites.slot_of(site_id)
            polled_as = ELSEWHERE if slot is None else slot
        self._scheduler.add_source(known.source.id, known.slots[known.slots >= 0], polled_as)

    def _waits(self, signal: StoredSignal) -> bool:
        """Returns whether no informative poll of the site has followed the signal."""
        slot = self._scheduler.sites.slot_of(signal.site_id)
        return slot is not None and waits(signal.signalled_at, float(self._scheduler.sites.last_seen[slot]))

    def _pass_on(self, known: _Known, signals: Sequence[StoredSignal]) -> None:
        """Passes signals to the allocator, each once, in the order of their times; not those of sites that are not
        here.
        """
        by_time: dict[float, list[StoredSignal]] = {}
        for signal in signals:
            by_time.setdefault(signal.signalled_at or 0.0, []).append(signal)
        for signalled_at in sorted(by_time):
            some = by_time[signalled_at]
            site_ids = np.array([signal.site_id for signal in some], np.int64)
            at = np.array([changed_at(signal.date, signalled_at) for signal in some])
            slots = self._scheduler.sites.slots_of(site_ids)
            fresh = (slots >= 0) & _is_later(known, site_ids, signalled_at)
            if fresh.any():
                self._scheduler.signal(slots[fresh], known.source.id, at[fresh], signalled_at)
                note_unchanged(self._scheduler, slots[fresh], signalled_at)


def _is_later(known: _Known, site_ids: NDArray[np.int64], signalled_at: float) -> NDArray[np.bool_]:
    """Notes a signal of each of the sites int64[k]; returns of which the one before was earlier, bool[k]."""
    places = np.minimum(np.searchsorted(known.site_ids, site_ids), max(len(known.site_ids) - 1, 0))
    spoken_for = known.site_ids[places] == site_ids if len(known.site_ids) else np.zeros(len(site_ids), np.bool_)
    later = spoken_for.copy()
    later[spoken_for] = known.passed_at[places[spoken_for]] < signalled_at
    known.passed_at[places[later]] = signalled_at
    return later


def changed_at(date: float | None, now: float) -> float:
    """Returns the time of a change as the allocator takes it: none before 1970 or after `now`; nan: no date."""
    return np.nan if date is None else min(max(date, 0.0), now)


# The yield of the last hour from polls of pages with signal sources, and its cost without signals.

SPAN_SECONDS = 3600.0
_STEP_SECONDS = 60.0
_EXPECTED, _POLLS, _FOUND, _AFTER_SIGNAL, _FOUND_AFTER_SIGNAL = range(5)


class SignalYield:
    """Sums over the last hour, by minute. Nothing is noted without signal sources.

    A minute holds float64[5]: the expected value of all polls, polls of pages with sources and what they found, and
    the same of polls that followed a signal.
    """

    def __init__(self, *, sources: Sized, scheduler: SchedulerState, instruments: Instruments) -> None:
        """sources: as many as there are signal sources."""
        self._sources, self._scheduler, self._instruments = sources, scheduler, instruments
        self._minutes: deque[tuple[float, NDArray[np.float64]]] = deque()

    def note(
        self, slots: NDArray[np.int64], predicted: NDArray[np.float64], changed: NDArray[np.bool_], now: float
    ) -> None:
        """Counts polls of slots int64[k] at `now`, epoch s, before the allocator learns from them.

        predicted float64[k]: probability that they find a change, nan: not known; changed bool[k].
        """
        if not len(self._sources):
            return
        waiting = self._scheduler.allocator.signals_waiting(slots)
        of_source = ~np.isnan(waiting)
        after = of_source & (waiting > 0)
        value = predicted * self._scheduler.sites.weight[slots]
        sums = np.array([np.nansum(value), of_source.sum(), (of_source & changed).sum(), after.sum(), 0.0])
        sums[_FOUND_AFTER_SIGNAL] = (after & changed).sum()
        if not self._minutes or now - self._minutes[-1][0] >= _STEP_SECONDS:
            self._minutes.append((now, np.zeros(5)))
        self._minutes[-1][1][:] += sums
        self._drop(now)
        for signalled, some in (("yes", after), ("no", of_source & ~after)):
            for outcome, those in (("yes", some & changed), ("no", some & ~changed)):
                self._instruments.signalled_polls[signalled, outcome].inc(int(those.sum()))

    def view(self, curve: Sequence[tuple[float, float]], now: float) -> SignalYieldView | None:
        """Returns the sums; None without signal sources.

        curve: (budget, value per s) of the best split without signals, by budget; empty: not known.
        """
        if not len(self._sources):
            return None
        self._drop(now)
        sums = np.sum([minute for _, minute in self._minutes], axis=0) if self._minutes else np.zeros(5)
        span = now - self._minutes[0][0] if self._minutes else 0.0
        expected = float(sums[_EXPECTED]) / span if span >= _STEP_SECONDS else None
        return SignalYieldView(
            sources=len(self._sources),
            polls=int(sums[_POLLS]),
            found=int(sums[_FOUND]),
            polls_after_signal=int(sums[_AFTER_SIGNAL]),
            found_after_signal=int(sums[_FOUND_AFTER_SIGNAL]),
            budget_saved=None if expected is None else saved_share(expected, self._scheduler.budget, curve),
        )

    def _drop(self, now: float) -> None:
        while self._minutes and now - self._minutes[0][0] > SPAN_SECONDS:
            self._minutes.popleft()


def saved_share(value: float, budget: float, curve: Sequence[tuple[float, float]]) -> float | None:
    """Returns the share of the budget that signals save, 0 to 1: 1 - budget / the one that finds `value` without them.

    value: per s, found with signals; curve: (budget, value per s) without, by budget. Beyond its end the last budget
    counts: the share is then a lower bound. None for an empty curve.
    """
    if not curve:
        return None
    budgets, values = np.array(curve).T
    rising = np.concatenate([[True], np.diff(np.maximum.accumulate(values)) > 0])
    needed = float(np.interp(value, values[rising], budgets[rising]))
    return max(1.0 - budget / needed, 0.0)
