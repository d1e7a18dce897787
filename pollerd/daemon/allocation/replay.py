"""Teaches an allocator from stored polls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation import Allocator, EvidenceBatch
from pollerd.scheduling import SiteTable
from pollerd.storage import PollColumns


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
