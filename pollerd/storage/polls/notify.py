"""Wakes readers when new changes are committed."""

from __future__ import annotations

import asyncio


class ChangeNotifier:
    """Notifies readers in this process of new changes, which they read from the database."""

    def __init__(self) -> None:
        self._newest = 0
        self._came = asyncio.Event()

    def announce(self, change_id: int) -> None:
        """Wakes all waiters: changes up to this id are committed."""
        self._newest = max(self._newest, change_id)
        self._came.set()
        self._came = asyncio.Event()

    async def after(self, change_id: int) -> None:
        """Returns once a change with an id above `change_id` was announced, possibly before the call."""
        while self._newest <= change_id:
            await self._came.wait()
