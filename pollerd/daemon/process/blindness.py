"""Periods in which nothing could be polled, through no fault of any site."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import NamedTuple


class BlindCause(StrEnum):
    """Why nothing could be polled."""

    LINK = "our own link was down"
    DATABASE = "the database took no commits"
    STOPPED = "the daemon did not run"


class BlindPeriod(NamedTuple):
    """One period; times in epoch s."""

    cause: BlindCause
    since: float
    until: float


class Blindness:
    """Notes when such periods begin and end."""

    def __init__(self) -> None:
        self._since: dict[BlindCause, float] = {}
        self._ended: asyncio.Queue[BlindPeriod] = asyncio.Queue(maxsize=1_000)

    def begin(self, cause: BlindCause, now: float) -> None:
        """Notes the begin; a period under way goes on."""
        self._since.setdefault(cause, now)

    def end(self, cause: BlindCause, now: float) -> None:
        """Notes the end; without a begin nothing."""
        since = self._since.pop(cause, None)
        if since is not None:
            self.note(BlindPeriod(cause, since, now))

    def note(self, period: BlindPeriod) -> None:
        """Notes a whole period; the oldest are forgotten where nobody asks for them."""
        if self._ended.full():
            self._ended.get_nowait()
        self._ended.put_nowait(period)

    async def next(self) -> BlindPeriod:
        """Waits for a period to end, and returns it."""
        return await self._ended.get()
