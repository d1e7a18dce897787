"""Counts what the outbox holds, for the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pollerd.errors import DatabaseUnavailableError
from pollerd.storage import NotificationStore
from pollerd.telemetry import Instruments

INTERVAL_SECONDS = 15.0


class OutboxGauges:
    """Sets the gauges of what waits, of what is dead, and of paused channels."""

    def __init__(self, *, store: NotificationStore, instruments: Instruments, clock: Callable[[], float]) -> None:
        self._store, self._instruments, self._clock = store, instruments, clock

    async def run(self) -> None:
        """Sets them every 15 s, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def refresh(self) -> None:
        """Sets them once; while the database cannot be asked they keep their values."""
        try:
            counts, channels = await self._store.counts(), await self._store.channels()
        except DatabaseUnavailableError:
            return  # `storage_failing` reports it
        found, now = list(counts.values()), self._clock()
        oldest = min((one.oldest for one in found if one.oldest is not None), default=now)
        self._instruments.notices_waiting.set(sum(one.waiting + one.sending for one in found))
        self._instruments.notices_dead.set(sum(one.dead for one in found))
        self._instruments.oldest_notice.set(max(0.0, now - oldest))
        self._instruments.channels_paused.set(sum(one.paused_at is not None for one in channels))
