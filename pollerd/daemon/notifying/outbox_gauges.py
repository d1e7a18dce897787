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
        """Sets them every 15 s, until cancelled; then to 0, as another node may count from then on."""
        try:
            while True:
                await self.refresh()
                await asyncio.sleep(INTERVAL_SECONDS)
        finally:
            self._set()

    async def refresh(self) -> None:
        """Sets them once; while the database cannot be asked they keep their values."""
        try:
            counts, channels = await self._store.counts(), await self._store.channels()
        except DatabaseUnavailableError:
            return  # `storage_failing` reports it
        found, now = list(counts.values()), self._clock()
        oldest = min((one.oldest for one in found if one.oldest is not None), default=now)
        self._set(
            waiting=sum(one.waiting + one.sending for one in found),
            dead=sum(one.dead for one in found),
            oldest=max(0.0, now - oldest),
            paused=sum(one.paused_at is not None for one in channels),
        )

    def _set(self, *, waiting: int = 0, dead: int = 0, oldest: float = 0.0, paused: int = 0) -> None:
        self._instruments.notices_waiting.set(waiting)
        self._instruments.notices_dead.set(dead)
        self._instruments.oldest_notice.set(oldest)
        self._instruments.channels_paused.set(paused)
