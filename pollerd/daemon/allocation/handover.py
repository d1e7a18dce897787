"""Replaces the active allocator by another while polling continues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation import Allocator
from pollerd.daemon.allocation.replay import Replay
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.scheduling import SiteTable
from pollerd.storage import HistoryStore

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
