"""How many pages are rendered at once: a bound that may change while pages are rendered and others wait."""

from __future__ import annotations

import asyncio
from types import TracebackType


class PageTurns:
    """An asynchronous context manager: waits for a turn, first come, first served. Used inside one event loop."""

    def __init__(self, most: int) -> None:
        self._most, self._owed = most, 0
        self._free = asyncio.Semaphore(most)

    @property
    def most(self) -> int:
        """Maximum number of turns at once."""
        return self._most

    def adopt(self, most: int) -> None:
        """Sets the maximum, 1 or more. Pages under way end as they would; a smaller one holds for those that begin."""
        more, self._most = most - self._most, most
        if more < 0:
            self._owed -= more
            return
        paid = min(more, self._owed)
        self._owed -= paid
        for _ in range(more - paid):
            self._free.release()

    async def __aenter__(self) -> None:
        while True:
            await self._free.acquire()
            if not self._owed:
                return
            self._owed -= 1  # this turn is one of those that are no more

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owed:
            self._owed -= 1
        else:
            self._free.release()
