"""Which sites were chosen or are being polled, and the tasks that poll them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial

from pollerd.daemon.process.loop_lag import LagWatch
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.telemetry import Instruments


class InFlight:
    """Reserves the chosen sites, runs one task for each, and gives sites and hosts back."""

    def __init__(self, *, scheduler: SchedulerState, most: int, instruments: Instruments) -> None:
        """`most`: polls under way at once. Must be called inside the running event loop."""
        self._scheduler = scheduler
        self._lag = LagWatch(instruments)
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.chosen: dict[int, int] = {}
        """Slot -> site id of the sites that were chosen and have not started."""
        self.asking: set[int] = set()
        """Slots whose host is being asked for its robots.txt."""
        self.room = asyncio.Semaphore(most)
        """One permit for each poll under way."""
        self.ended = asyncio.Event()
        """Set whenever a task ends."""
        self.idling = False
        """Whether the dispatcher waits because nothing could be started: a site or host that is freed wakes it."""
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Gets the exception of a task that raised: a fault of ours, which ends the daemon."""
        instruments.inflight.set_function(lambda: len(self._tasks))

    def __len__(self) -> int:
        """Polls and robots.txt requests under way."""
        return len(self._tasks)

    def reserve(self, slots: list[int]) -> None:
        """Marks chosen sites so that they are not chosen again."""
        sites = self._scheduler.sites
        self.chosen = {slot: int(sites.site_id[slot]) for slot in slots}
        sites.in_flight[slots] = True
        sites.touch(slots)

    def release_chosen(self) -> int:
        """Gives back the chosen sites that did not start; returns how many."""
        left, self.chosen = self.chosen, {}
        self.release(left)
        return len(left)

    def release(self, ids: dict[int, int]) -> None:
        """Gives back sites, slot -> site id, that were reserved and are not going to be polled."""
        sites = self._scheduler.sites
        for slot, site_id in ids.items():
            if sites.site_id[slot] == site_id:
                sites.in_flight[slot] = False
                sites.touch([slot])
        if self.idling:  # when the next is due was worked out as if these were going to be polled
            self._scheduler.due.set()

    def still_chosen(self, slot: int) -> bool:
        """Whether the chosen site is to be polled after all: not removed, moved or paused meanwhile."""
        return slot in self.chosen and not self._scheduler.sites.paused[slot]

    def abandon(self, slot: int) -> None:
        """Calls off what is under way for the slot: its site was removed."""
        self.chosen.pop(slot, None)
        task = self._tasks.get(slot)
        if task is not None:
            # Not at once: a task cancelled before its first step would never give back its room and its host.
            self._loop.call_soon(task.cancel)

    def mark_turn(self) -> None:
        """Measures how long this turn of the event loop takes."""
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
        """Waits up to `seconds` for the polls under way and calls off the rest; returns whether none was left.

        Requests for robots.txt are called off at once: no poll waits for them any more.
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
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(tasks)
