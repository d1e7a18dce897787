"""Word of what was committed, for those who wait for it."""

from __future__ import annotations

import asyncio


class ChangeNotifier:
    """Tells readers in this process that there are new changes. What they are stands in the database."""

    def __init__(self) -> None:
        self._newest = 0
        self._came = asyncio.Event()

    def announce(self, change_id: int) -> None:
        """Changes up to this id are committed: whoever waits goes on."""
        self._newest = max(self._newest, change_id)
        self._came.set()
        self._came = asyncio.Event()

    async def after(self, change_id: int) -> None:
        """Returns once a change with a larger id was announced, at once where one was already."""
        while self._newest <= change_id:
            await self._came.wait()
