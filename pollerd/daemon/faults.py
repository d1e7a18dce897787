"""Faults: internal ones triggered by one site, invalid settings in the database, and a database that fails.

A site with an internal fault is set aside and reported; the others continue. It backs off like a failing one, up to a
day, and gives the reason; nothing is learned of it. A fault that hits one site after the other is not caused by the
sites. At the twentieth site in a row, with no page read successfully in between, the fault is raised: the daemon ends
with its cause.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.daemon.stages import Answer, Found
from pollerd.errors import FaultEverywhereError, TooHeavyError
from pollerd.model import Outcome, OutcomeKind
from pollerd.scheduling.sites import SiteTable
from pollerd.site_settings import NO_ACCESS, NUMERIC_SETTINGS, USABLE
from pollerd.storage.values import SiteContext
from pollerd.telemetry import Instruments
from pollerd.texts import _

SITES_IN_A_ROW = 20
"""Consecutive faulty sites that imply that nearly all are affected. A shorter list is set aside as a whole."""
_LONGEST = 300


class Faults:
    """Reports exceptions with their tracebacks, and turns them into results."""

    def __init__(self, instruments: Instruments, clock: Callable[[], float]) -> None:
        self._instruments, self._clock = instruments, clock
        self.in_a_row: set[int] = set()
        """Ids of the sites that raised since a page was last read successfully."""
        self._log = structlog.get_logger("pollerd.faults")

    def set_aside(self, slot: int, context: SiteContext, error: Exception) -> Found:
        """Returns the result of a site at which `error` was raised, to be committed in place of the failed one.

        Raises as `report`.
        """
        self.report(context, error)
        return self.unusable(slot, context, reason(context, error))

    def unusable(self, slot: int, context: SiteContext, reason: str) -> Found:
        """Returns the result of a site whose stored settings cannot be used."""
        detail = _("set aside: {reason}", reason=reason)
        outcome = Outcome(OutcomeKind.UNDECODABLE, started_at=self._clock(), duration=0.0, detail=detail)
        return Found(Answer(slot, context, outcome, asked=False))

    def report(self, context: SiteContext, error: Exception) -> None:
        """Reports an exception at the site; must be called where it is handled. A page that is too heavy is the site's
        failure and no fault of ours.

        Raises FaultEverywhereError, caused by `error`, at the twentieth site in a row; reraises one that is passed in.
        """
        if isinstance(error, FaultEverywhereError):
            raise error
        if isinstance(error, TooHeavyError):
            self._log.warning("page_too_heavy", site_id=context.site_id, url=context.url, reason=str(error))
            return
        self._instruments.site_faults.inc()
        self._log.error("site_fault", site_id=context.site_id, url=context.url, exc_info=error)
        self.in_a_row.add(context.site_id)
        if len(self.in_a_row) >= SITES_IN_A_ROW:
            sites = _("{count} sites in a row", count=len(self.in_a_row))
            raise FaultEverywhereError(
                _("{sites} raised, the last: {reason}", sites=sites, reason=reason(context, error))
            ) from error

    def passed(self, result: Found) -> None:
        """Notes a committed poll; if it read its page, the run of faults ends."""
        if result.detection is not None and result.detection.kind.informative:
            self.in_a_row.clear()


def reason(context: SiteContext, error: Exception) -> str:
    """Returns one line on the error, without its message if the site has secrets, which it could reveal."""
    if isinstance(error, TooHeavyError):
        return str(error)
    name = type(error).__name__
    words = " ".join(str(error).split()) if context.access is NO_ACCESS else "(not shown)"
    return f"{name}: {words}"[:_LONGEST]


# Invalid site settings found in the database are replaced by defaults, and reported.


def replace_invalid_settings(table: SiteTable, slots: NDArray[np.int64]) -> dict[int, str]:
    """Replaces each unusable setting by its default; returns site id -> what is wrong with it."""
    faults: dict[int, str] = {}
    for name, usable in USABLE.items():
        column: NDArray[np.float64] = getattr(table, name)
        values, default = column[slots], NUMERIC_SETTINGS[name]
        good = (values >= usable.least) & (values <= usable.most)
        if default is None:
            good |= np.isnan(values)  # unset
        for slot in slots[~good].tolist():
            faults[int(table.site_id[slot])] = _(
                "{name}: must be {allowed}; given: {column!r}",
                name=name,
                allowed=usable.allowed,
                column=float(column[slot]),
            )
            table.put(name, slot, math.nan if default is None else default)
    return faults


# The health of the database: its failure is logged when it begins, periodically while it lasts, and when it ends.

FIRST_RETRY_SECONDS = 0.5
RETRY_CAP_SECONDS = 5.0
_SAY_AGAIN_SECONDS = 60.0
_STOPS_POLLING = frozenset({"commits", "session"})


class StorageHealth:
    """The failing database operations, and why: set by their callers, read by the poller and health checks."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self.failing: dict[str, str] = {}
        """What fails -> why."""
        self._since = self._said_at = -math.inf
        self._log = structlog.get_logger("pollerd.storage")
        self.takes_commits = asyncio.Event()
        """Cleared while no poll may start, since its result could not be stored."""
        self.takes_commits.set()

    @property
    def failure(self) -> str | None:
        """Why the database fails; None if it works."""
        return next(iter(self.failing.values()), None)

    def failed(self, what: str, why: str, *, effect: str = "polling is paused", database: str = "") -> None:
        """Notes that an operation failed: "commits", "reads", "start", or "session" (a node's, which must answer).

        effect, database: for the log event.
        """
        began, now = not self.failing, time.monotonic()
        if began:
            self._since = now
        self.failing[what] = why
        self._instruments.storage_failing.set(1)
        if what in _STOPS_POLLING:
            self.takes_commits.clear()
        if began or now - self._said_at >= _SAY_AGAIN_SECONDS:
            self._said_at = now
            log = self._log.bind(database=database) if database else self._log
            log.error("storage_failing", reason=why, effect=effect, seconds=round(now - self._since))

    def works(self, what: str) -> None:
        """Notes that the operation succeeded."""
        if self.failing.pop(what, None) is None:
            return
        if _STOPS_POLLING.isdisjoint(self.failing):
            self.takes_commits.set()
        if not self.failing:
            self._instruments.storage_failing.set(0)
            self._log.info("storage_recovered", effect="polling resumes", seconds=round(time.monotonic() - self._since))
