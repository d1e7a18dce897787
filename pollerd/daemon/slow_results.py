"""Results that take long: each is prepared by itself, before it is committed with others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pollerd.daemon.stages import Found
from pollerd.daemon.workers import WorkerPool

T = TypeVar("T")


class LeavesBatchError(Exception):
    """A result needs a worker process, whose turn may come late: it leaves the batch, and is prepared by itself."""


async def here_or_beside(
    workers: WorkerPool, result: Found, work: Callable[..., T], *arguments: object, light: bool
) -> T:
    """Returns the result of work on a poll, done in the event loop if it is light, else by a worker process.

    Raises what the work raises; TooHeavyError as `WorkerPool.do`; LeavesBatchError if a worker is needed, and the
    result is one of a batch.
    """
    if light:
        return work(*arguments)
    if not result.alone:
        raise LeavesBatchError
    return await workers.do(work, *arguments, effort=result.effort)


class SlowResults:
    """Results that are being prepared by themselves; each is handed on afterwards, to be committed with others."""

    def __init__(
        self,
        *,
        prepare: Callable[[Found], Awaitable[Found]],
        hand_on: Callable[[Found], None],
        on_end: Callable[[], None],
    ) -> None:
        """hand_on: takes the prepared result. on_end: called when a preparation has ended."""
        self._prepare, self._hand_on, self._on_end = prepare, hand_on, on_end
        self._under_way: dict[asyncio.Task[None], int] = {}
        """Task -> id of its site."""
        self._dropped = set[asyncio.Task[None]]()
        self.failure: BaseException | None = None
        """The exception that ended a preparation: an internal fault."""

    def __len__(self) -> int:
        """Returns the number of results that are being prepared."""
        return len(self._under_way)

    def begin(self, result: Found) -> None:
        """Begins to prepare a result."""
        task = asyncio.create_task(self._run(result), name=f"slow-{result.site_id}")
        self._under_way[task] = result.site_id
        task.add_done_callback(self._ended)

    def drop(self, site_id: int) -> None:
        """Drops the result of a site, if there is one: its URL changed."""
        self._dropped |= {task for task, of_site in self._under_way.items() if of_site == site_id}

    def cancel(self) -> None:
        """Ends all preparations; their polls are not committed, and repeated at the next start."""
        for task in self._under_way:
            task.cancel()

    async def _run(self, result: Found) -> None:
        prepared = await self._prepare(result)
        if asyncio.current_task() not in self._dropped:
            self._hand_on(prepared)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self._dropped.discard(task)
        if not task.cancelled():
            self.failure = task.exception() or self.failure
        self._on_end()
