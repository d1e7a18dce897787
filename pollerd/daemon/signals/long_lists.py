"""Reads long lists of signal sources beside the commits of other polls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pollerd.daemon.state.poll_result import PollResult


class LongLists:
    """Polls whose lists are being read. Each is handed on afterwards: what it says is stored before it is committed."""

    def __init__(
        self,
        *,
        read: Callable[[PollResult], Awaitable[PollResult]],
        hand_on: Callable[[PollResult], None],
        on_end: Callable[[], None],
    ) -> None:
        """read: stores what a list says. hand_on: takes the poll then. on_end: called when a reading has ended."""
        self._read, self._hand_on, self._on_end = read, hand_on, on_end
        self._under_way: dict[asyncio.Task[None], int] = {}
        """Task -> id of its site."""
        self._dropped = set[asyncio.Task[None]]()
        self.failure: BaseException | None = None
        """The exception that ended a reading: an internal fault."""

    def __len__(self) -> int:
        """Returns the number of polls whose lists are being read."""
        return len(self._under_way)

    def begin(self, result: PollResult) -> None:
        """Begins to read the list of a poll."""
        task = asyncio.create_task(self._run(result), name=f"list-{result.site_id}")
        self._under_way[task] = result.site_id
        task.add_done_callback(self._ended)

    def drop(self, site_id: int) -> None:
        """Drops the poll of a site, if its list is being read: its URL changed."""
        self._dropped |= {task for task, of_site in self._under_way.items() if of_site == site_id}

    def cancel(self) -> None:
        """Ends all readings; their polls are not committed, and repeated at the next start."""
        for task in self._under_way:
            task.cancel()

    async def _run(self, result: PollResult) -> None:
        read = await self._read(result)
        if asyncio.current_task() not in self._dropped:
            self._hand_on(read)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self._dropped.discard(task)
        if not task.cancelled():
            self.failure = task.exception() or self.failure
        self._on_end()
