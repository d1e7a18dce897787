"""Tracks whether the database works; logs when it fails, periodically while it does, and when it recovers."""

from __future__ import annotations

import asyncio
import math
import time

import structlog

from pollerd.telemetry import Instruments

FIRST_RETRY_SECONDS = 0.5
RETRY_CAP_SECONDS = 5.0
_SAY_AGAIN_SECONDS = 60.0
_STOPS_POLLING = frozenset({"commits", "session"})


class StorageHealth:
    """The failing database operations, and why: set by their callers, read by dispatcher and health checks."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self._failing: dict[str, str] = {}
        self._since = self._said_at = -math.inf
        self._log = structlog.get_logger("pollerd.storage")
        self.takes_commits = asyncio.Event()
        """Cleared while no poll may start, since its result could not be stored."""
        self.takes_commits.set()

    @property
    def failure(self) -> str | None:
        """Why the database fails; None if it works."""
        return next(iter(self._failing.values()), None)

    def failed(self, what: str, why: str, **more: str) -> None:
        """Notes that an operation failed: "commits", "reads", "start", or "session" (a node's, which must answer).

        `more`: further fields of the log event.
        """
        began, now = not self._failing, time.monotonic()
        if began:
            self._since = now
        self._failing[what] = why
        self._instruments.storage_failing.set(1)
        if what in _STOPS_POLLING:
            self.takes_commits.clear()
        if began or now - self._said_at >= _SAY_AGAIN_SECONDS:
            self._said_at = now
            seconds = {} if began else {"seconds": round(now - self._since)}
            self._log.error("storage_failing", reason=why, **(more or {"polling": "paused"}), **seconds)

    def works(self, what: str) -> None:
        """Notes that the operation succeeded."""
        if self._failing.pop(what, None) is None:
            return
        if _STOPS_POLLING.isdisjoint(self._failing):
            self.takes_commits.set()
        if not self._failing:
            self._instruments.storage_failing.set(0)
            self._log.info("storage_recovered", polling="resumed", seconds=round(time.monotonic() - self._since))
