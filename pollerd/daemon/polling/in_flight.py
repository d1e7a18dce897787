"""Tracks the sites that are chosen or being polled, and their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial

from pollerd.daemon.process.loop_lag import LagWatch
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.telemetry import Instruments


class InFlight:
    """Reserves the chosen sites, runs one task for each, and frees sites and hosts."""

    def __init__(self, *, scheduler: SchedulerState, most: int, instruments: Instruments) -> None:
        """`most`: maximum of concurrent polls. Must be called inside the running event loop."""
        self._scheduler = scheduler
        self._lag = LagWatch(instruments)
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.chosen: dict[int, int] = {}
        """Slot -> site id of the chosen sites that have not started."""
        self.asking: set[int] = set()
        """Slots whose host's robots.txt is being requested."""
        self.room = asyncio.Semaphore(most)
        """One permit per poll in flight."""
        self.ended = asyncio.Event()
        """Set whenever a task ends."""
        self.idling = False
        """Whether the dispatcher waits because nothing could be started: freeing a site or host wakes it."""
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Receives the exception of a failed task: an internal fault that ends the daemon."""
        instruments.inflight.set_function(lambda: len(self._tasks))

    def __len__(self) -> int:
        """Returns the number of polls and robots.txt requests in flight."""
        return len(self._tasks)

    @property
    def loop_lag(self) -> float:
        """How late the event loop ran a timer, s, at worst in the last 15."""
        return self._lag.worst()

    def reserve(self, slots: list[int]) -> None:
        """Marks chosen sites so that they are not chosen again."""
        sites = self._scheduler.sites
        self.chosen = {slot: int(sites.site_id[slot]) for slot in slots}
        sites.in_flight[slots] = True
        sites.touch(slots)

    def release_chosen(self) -> int:
        """Frees the chosen sites that did not start; returns how many."""
        left, self.chosen = self.chosen, {}
        self.release(left)
        return len(left)

    def release(self, ids: dict[int, int]) -> None:
        """Frees reserved sites, slot -> site id, that will not be polled."""
        sites = self._scheduler.sites
        for slot, site_id in ids.items():
            if sites.site_id[slot] == site_id:
                sites.in_flight[slot] = False
                sites.touch([slot])
        if self.idling:  # the next due time was computed as if these were polled
            self._scheduler.due.set()

    def still_chosen(self, slot: int) -> bool:
        """Returns whether the chosen site is still to be polled: not removed, moved or paused meanwhile."""
        return slot in self.chosen and not self._scheduler.sites.paused[slot]

    def abandon(self, slot: int) -> None:
        """Cancels the work for the slot after its site was removed."""
        self.chosen.pop(slot, None)
        task = self._tasks.get(slot)
        if task is not None:
            # Not at once: a task cancelled before its first step would never free its permit and its host.
            self._loop.call_soon(task.cancel)

    def mark_turn(self) -> None:
        """Measures how long this iteration of the event loop takes."""
        self._lag.mark()

    def spawn(self, slot: int, work: Coroutine[None, None, None], name: str) -> None:
        """Runs the work for the slot as a task of this name."""
        task = self._loop.create_task(work, name=name)
        self._tasks[slot] = task
        self._lag.begin()
        task.add_done_callback(partial(self._done, slot))

    def _done(self, slot: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(slot) is task:
            del self._tasks[slot]
        self.ended.set()
        if self._tasks:
            self._lag.begin()
        else:
            self._lag.end()
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not self.failed.done():
            self.failed.set_exception(fault)

    async def drain(self, seconds: float) -> bool:
        """Waits up to `seconds` for the polls in flight and cancels the rest; returns whether none was left.

        Cancels robots.txt requests at once: no poll waits for them any more.
        """
        for slot in self.asking & self._tasks.keys():
            self._tasks[slot].cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=seconds)
        return not await self.call_off()

    async def call_off(self) -> int:
        """Cancels all tasks and waits for their end; returns how many there were."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # what one raised is in `failed`
        return len(tasks)
