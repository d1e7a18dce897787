"""Whether the database does what the daemon asks: said when it ceases to, now and then meanwhile, and when it does."""

from __future__ import annotations

import asyncio
import math
import time

import structlog

from pollerd.telemetry import Instruments

FIRST_RETRY_SECONDS = 0.5
RETRY_CAP_SECONDS = 5.0
_SAY_AGAIN_SECONDS = 60.0


class StorageHealth:
    """What the database refuses, and why: told by those who call it, read by those who start polls or are asked."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self._failing: dict[str, str] = {}
        self._since = self._said_at = -math.inf
        self._log = structlog.get_logger("pollerd.storage")
        self.takes_commits = asyncio.Event()
        """While it is cleared nothing is to be polled: it could not be kept."""
        self.takes_commits.set()

    @property
    def failure(self) -> str | None:
        """Why the database does not do what is asked of it; None where it does."""
        return next(iter(self._failing.values()), None)

    def failed(self, what: str, why: str, **more: str) -> None:
        """What was tried ("commits", "reads", "start") did not go through. `more`: what to say with it in the log."""
        began, now = not self._failing, time.monotonic()
        if began:
            self._since = now
        self._failing[what] = why
        self._instruments.storage_failing.set(1)
        if what == "commits":
            self.takes_commits.clear()
        if began or now - self._said_at >= _SAY_AGAIN_SECONDS:
            self._said_at = now
            seconds = {} if began else {"seconds": round(now - self._since)}
            self._log.error("storage_failing", reason=why, **(more or {"polling": "paused"}), **seconds)

    def works(self, what: str) -> None:
        """What was tried went through."""
        if self._failing.pop(what, None) is None:
            return
        if what == "commits":
            self.takes_commits.set()
        if not self._failing:
            self._instruments.storage_failing.set(0)
            self._log.info("storage_recovered", polling="resumed", seconds=round(time.monotonic() - self._since))
