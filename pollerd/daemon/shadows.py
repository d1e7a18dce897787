"""Shadows, allocators that learn from the same polls as the active one, and the change of the active allocator.

A shadow chooses nothing, and estimates how often it would poll. Each has a queue of the commands that the active
allocator received and executes them in a thread: a shadow costs the event loop next to nothing. A shadow that raises or
falls too far behind is dropped and reported; polling continues.

A shadow never sees the polls it would have made itself. It learns from the choices of the active allocator, so it has
no evidence on sites that this one neglects, and its value is computed under the active allocator's belief.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.allocation import registry
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.periods import desired_periods
from pollerd.daemon.forecast import BeliefColumns, Forecast
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import AllocatorCommand, SchedulerState
from pollerd.daemon.views import ShadowState, ShadowView
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.scheduling.sites import SiteTable
from pollerd.storage.history import HistoryStore
from pollerd.storage.values import PollColumns
from pollerd.texts import _

# Replay of stored polls to an allocator.


class Replay:
    """Feeds stored polls, in time order, to an allocator that holds all or some sites of a table.

    `site_id` int64[n] names the site that the allocator holds in each slot, -1 for none. Polls of other sites and
    undated first polls are skipped, as in live polling. `taken` counts the polls learned. The allocator learns in a
    thread and must not be used meanwhile.
    """

    def __init__(self, sites: SiteTable, allocator: Allocator) -> None:
        self._sites, self._allocator = sites, allocator
        n = sites.size
        self.site_id: NDArray[np.int64] = np.where(sites.occupied(), sites.site_id[:n], -1)
        self.taken = 0

    async def teach(self, blocks: AsyncIterator[PollColumns]) -> None:
        """Learns from all blocks of polls."""
        async for polls in blocks:
            await self.take(polls)

    async def take(self, polls: PollColumns) -> None:
        """Learns from one block of polls."""
        await asyncio.to_thread(self._teach, polls, self.slots_of(polls))

    def _teach(self, polls: PollColumns, slots: NDArray[np.int64]) -> None:
        informed = np.isfinite(polls.elapsed) | ~np.isnan(polls.age)
        if self._allocator.counts_items:
            informed |= ~np.isnan(polls.span)
        rows = np.flatnonzero((slots >= 0) & informed)
        # as in live polling: each batch holds the polls of a quarter of a second
        beat = np.floor(polls.at[rows] * 4.0)
        for some in np.split(rows, np.flatnonzero(np.diff(beat)) + 1) if rows.size else ():
            evidence = EvidenceBatch(
                changed=polls.changed[some],
                age=polls.age[some],
                count=polls.count[some],
                at_least=polls.at_least[some],
                span=polls.span[some],
            )
            self._allocator.observe(slots[some], polls.elapsed[some], evidence, float(polls.at[some][-1]))
        self.taken += len(rows)

    def slots_of(self, polls: PollColumns) -> NDArray[np.int64]:
        """Returns the slot of each poll's site, -1 if the allocator does not hold it."""
        slots = self._sites.slots_of(polls.site_id)
        held = (slots >= 0) & (slots < len(self.site_id))
        held[held] = self.site_id[slots[held]] == polls.site_id[held]
        return np.where(held, slots, -1)


async def catch_up(blocks: AsyncIterator[PollColumns], sites: SiteTable, allocator: Allocator) -> int:
    """Updates the shared state with the polls made after it was stored; returns their number.

    The stored states of the polled sites already include these polls; they are restored afterwards, so nothing counts
    twice.
    """
    replay = Replay(sites, allocator)
    polled, states = np.empty(0, np.int64), []
    async for polls in blocks:
        fresh = np.setdiff1d(replay.slots_of(polls), np.append(polled, -1))
        states.append(allocator.site_state(fresh))
        polled = np.append(polled, fresh)
        await replay.take(polls)
    if replay.taken:
        allocator.restore(polled, np.concatenate(states), allocator.shared_state())
    return replay.taken


MAX_SHADOWS = 3
EVERY_SECONDS = 15.0
"""Interval between evaluations of the shadows."""
SHARE = 0.02
"""Largest share of the time that one shadow takes: with very many sites it is evaluated less often."""
_MAX_COMMANDS = 100_000
"""Commands that may be queued; beyond that the shadow is dropped as too slow."""
_HOUR_SECONDS = 3_600.0


class ShadowAllocator:
    """One shadow and its queue of commands."""

    def __init__(self, *, name: str, allocator: Allocator, scheduler: SchedulerState) -> None:
        self.name, self.allocator = name, allocator
        self._sites = scheduler.sites
        self.replay = Replay(scheduler.sites, allocator)
        self.commands = scheduler.follow(_MAX_COMMANDS)
        """Commands of the active allocator not executed yet."""
        self._take_in = scheduler.admit_command(np.flatnonzero(self.replay.site_id >= 0))
        self.through: int | None = None
        """Id of the last poll stored when it began to follow; None: it has learned the polls up to that one."""
        self.value: float | None = None
        """Expected value per second; None before the first evaluation."""
        self.reason: str | None = None
        """Why it was dropped."""
        self.rests_until = -math.inf

    def begin_anew(self, allocator: Allocator) -> None:
        """Replaces an allocator whose learning was interrupted by a fresh one; the queue stays."""
        known = self.replay.site_id
        self.allocator, self.replay = allocator, Replay(self._sites, allocator)
        self.replay.site_id = known

    async def prepare(self, store: HistoryStore) -> None:
        """Adds the sites and learns from the stored polls, as a candidate does."""
        if self.through is not None:
            await asyncio.to_thread(self._take_in, self.allocator)
            await self.replay.teach(store.recent_polls(through=self.through))
            self.through = None

    async def look(self, belief: BeliefColumns, now: float) -> None:
        """Executes the queued commands, and evaluates the shadow's intervals under the belief."""
        commands = self.commands.take()
        started = time.perf_counter()
        self.value = await asyncio.to_thread(_follow_and_ask, self.allocator, commands, belief, now)
        self.rests_until = time.monotonic() + (time.perf_counter() - started) / SHARE

    def view(self) -> ShadowView:
        """Returns the shadow's state."""
        state: ShadowState = "dropped" if self.reason else "learning" if self.value is None else "following"
        hourly = None if self.value is None or math.isnan(self.value) else self.value * _HOUR_SECONDS
        return ShadowView(self.name, state, None if self.reason else hourly, self.reason)


class Shadows:
    """Runs the shadows, and evaluates them every 15 s or less often."""

    def __init__(
        self,
        *,
        store: HistoryStore,
        scheduler: SchedulerState,
        forecast: Forecast,
        runtime: Runtime,
    ) -> None:
        self._store, self._scheduler, self._forecast = store, scheduler, forecast
        self._instruments, self._rng, self._clock = runtime.instruments, runtime.rng, runtime.clock
        self._shadows: list[ShadowAllocator] = []
        self._wake = asyncio.Event()
        self._log = structlog.get_logger("pollerd.shadows")

    @property
    def allocators(self) -> tuple[ShadowAllocator, ...]:
        """All shadows, including dropped ones."""
        return tuple(self._shadows)

    def names(self) -> tuple[str, ...]:
        """Returns the names of all shadows, including dropped ones."""
        return tuple(shadow.name for shadow in self._shadows)

    def views(self) -> tuple[ShadowView, ...]:
        """Returns the state of each shadow."""
        self._drop_overflowed()
        return tuple(shadow.view() for shadow in self._shadows)

    def made(self, names: Sequence[str], objective: str, in_charge: str, deadline: float) -> list[Allocator]:
        """Returns new allocators of these names, in order, without sites. deadline: s, of sites without their own.

        Raises InvalidValueError for names that are not allowed, and if an allocator cannot hold the sites.
        """
        known = registry.names()
        if len(set(names)) < len(names) or len(names) > MAX_SHADOWS or not set(names) <= set(known) - {in_charge}:
            allowed = _(
                "at most {max_shadows} different ones of {known}, without the one in charge",
                max_shadows=MAX_SHADOWS,
                known=", ".join(known),
            )
            raise InvalidValueError("shadows", allowed, list(names))
        return [self.admitted(name, objective, deadline) for name in names]

    def admitted(self, name: str, objective: str, deadline: float) -> Allocator:
        """Returns a new allocator without sites. Raises InvalidValueError if it cannot hold the sites that are here."""
        fresh = self._created(name, objective, deadline)
        slots = np.flatnonzero(self._scheduler.sites.occupied())
        if len(slots):
            fresh.admit(np.empty(0, np.int64), self._scheduler.sites.weight[slots], self._scheduler.sites.cost[slots])
        return fresh

    def _created(self, name: str, objective: str, deadline: float) -> Allocator:
        budget = self._scheduler.allocator.budget
        return registry.create(name, budget=budget, objective=objective, rng=self._rng, deadline=deadline)

    def put(self, names: Sequence[str], allocators: Sequence[Allocator], through: int) -> None:
        """Replaces all shadows by these, which start learning. No site may be changed and no poll committed meanwhile.

        through: id of the last stored poll.
        """
        for shadow in self._shadows:
            self._unmeasure(shadow.name)
            if shadow.reason is None:
                self._scheduler.unfollow(shadow.commands)
        self._shadows = []
        for name, fresh in zip(names, allocators, strict=True):
            shadow = ShadowAllocator(name=name, allocator=fresh, scheduler=self._scheduler)
            shadow.through = through
            self._shadows.append(shadow)
        self._wake.set()

    async def run(self) -> None:
        """Evaluates the shadows until cancelled."""
        while True:
            self._wake.clear()
            self._drop_overflowed()
            for shadow in list(self._shadows):
                if shadow.reason is None and time.monotonic() >= shadow.rests_until:
                    await self._attend(shadow)
            try:
                async with asyncio.timeout(EVERY_SECONDS if self._shadows else None):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _attend(self, shadow: ShadowAllocator) -> None:
        try:
            await shadow.prepare(self._store)
            await shadow.look(self._forecast.belief(), self._clock())
        except DatabaseUnavailableError as error:
            shadow.begin_anew(self._created(shadow.name, self._scheduler.objective, self._scheduler.deadline))
            self._log.warning("shadow_put_off", allocator=shadow.name, reason=str(error))
            return
        except Exception as error:  # noqa: BLE001
            # An allocator that is only compared ends nothing but itself: it is dropped, and its view says why.
            self._drop(shadow, str(error) or type(error).__name__, error)
            return
        if shadow in self._shadows and shadow.reason is None:
            self._measure(shadow)

    def _measure(self, shadow: ShadowAllocator) -> None:
        if shadow.value is None or math.isnan(shadow.value):
            self._unmeasure(shadow.name)
        else:
            self._instruments.expected.labels(f"shadow:{shadow.name}").set(shadow.value)

    def _drop_overflowed(self) -> None:
        for shadow in self._shadows:
            if shadow.commands.overflowed and shadow.reason is None:
                self._drop(shadow, _("it does not keep pace"))

    def _drop(self, shadow: ShadowAllocator, reason: str, error: BaseException | None = None) -> None:
        shadow.reason = reason
        shadow.commands.take()
        if shadow in self._shadows:
            self._scheduler.unfollow(shadow.commands)
            self._unmeasure(shadow.name)
        self._log.warning("shadow_dropped", allocator=shadow.name, reason=reason, exc_info=error)

    def _unmeasure(self, name: str) -> None:
        self._instruments.forget_expected(f"shadow:{name}")


def _follow_and_ask(
    allocator: Allocator, commands: Sequence[AllocatorCommand], belief: BeliefColumns, now: float
) -> float:
    """Returns the value per second; nan if the active allocator has no belief about rates."""
    for command in commands:
        command(allocator)
    if np.isnan(belief.rates[0]).all():
        return math.nan
    budget = belief.share(belief.budget)
    periods = desired_periods(allocator, belief.slots, belief.cost, belief.floor, budget, now)
    return belief.shown().value(periods) * belief.factor


# The handover from the active allocator to another while polling continues.

_SETTINGS: Mapping[str, Callable[[SiteTable, NDArray[np.int64] | slice], NDArray[np.float64]]] = {
    "weight": lambda sites, slots: sites.weight[slots],
    "cost": lambda sites, slots: sites.cost[slots],
    "half_life": lambda sites, slots: sites.half_lives(slots),
    "deadline": lambda sites, slots: sites.deadline[slots],
    "items_shown": lambda sites, slots: sites.items_shown[slots],
}
"""What allocators know of sites."""


class AllocatorHandover:
    """A candidate allocator that learns from the stored polls beside the active one.

    First `prepare`: it learns the polls stored so far, while polls and changes of sites continue. Then, while nothing
    is committed and no site is changed, `finish`: it learns the polls stored since and takes over changes of sites.
    """

    def __init__(self, *, store: HistoryStore, scheduler: SchedulerState, candidate: Allocator) -> None:
        self._store, self._scheduler, self.candidate = store, scheduler, candidate
        sites = scheduler.sites
        self._replay = Replay(sites, candidate)
        self._settings = {name: of(sites, slice(0, sites.size)).copy() for name, of in _SETTINGS.items()}
        self._through = 0

    async def prepare(self) -> None:
        """Adds the sites and learns from the polls stored so far, at most the last 64 per site.

        Raises InvalidValueError if the candidate cannot hold the sites.
        """
        slots = np.flatnonzero(self._replay.site_id >= 0)
        await asyncio.to_thread(self._scheduler.admit_command(slots), self.candidate)
        self._through = await self._store.last_poll_id()
        await self._replay.teach(self._store.recent_polls(through=self._through))

    async def finish(self) -> tuple[bytes, list[tuple[int, bytes]]]:
        """Learns from the polls since `prepare`; returns the shared state and a (site id, state) for each site.

        Raises InvalidValueError if the candidate cannot hold the current sites.
        """
        await asyncio.to_thread(self._bring_up_to_date)
        await self._replay.teach(self._store.recent_polls(after=self._through))
        return await asyncio.to_thread(self._learned)

    def _learned(self) -> tuple[bytes, list[tuple[int, bytes]]]:
        slots = np.flatnonzero(self._replay.site_id >= 0)
        states = self.candidate.site_state(slots)
        rows = list(zip(self._replay.site_id[slots].tolist(), _bytes(states), strict=True))
        return self.candidate.shared_state(), rows

    def _bring_up_to_date(self) -> None:
        """Applies sites that were removed, added or changed; changed sites keep their learned state."""
        sites, n = self._scheduler.sites, self._scheduler.sites.size
        now = np.where(sites.occupied(), sites.site_id[:n], -1)
        before = np.full(n, -1, np.int64)
        before[: len(self._replay.site_id)] = self._replay.site_id
        gone = np.flatnonzero((before >= 0) & (before != now))
        come = np.flatnonzero((now >= 0) & (before != now))
        stayed = np.flatnonzero((now >= 0) & (before == now))
        otherwise = stayed[self._differs(stayed)]
        states, shared = self.candidate.site_state(otherwise), self.candidate.shared_state()
        self.candidate.remove(np.concatenate([gone, otherwise]))
        self._scheduler.admit_command(otherwise)(self.candidate)
        if len(otherwise):
            self.candidate.restore(otherwise, states, shared)
        self._scheduler.admit_command(come)(self.candidate)
        self._replay.site_id = now

    def _differs(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        out = np.zeros(len(slots), np.bool_)
        for name, kept in self._settings.items():
            was, now = kept[slots], _SETTINGS[name](self._scheduler.sites, slots)
            out |= (was != now) & ~(np.isnan(was) & np.isnan(now))
        return out


def _bytes(states: NDArray[np.uint8]) -> Sequence[bytes]:
    """Returns each row as bytes."""
    whole, width = states.tobytes(), states.shape[1]
    return [whole[i * width : (i + 1) * width] for i in range(len(states))]
