"""Handles internal faults triggered by one site: the site is set aside and reported, the others continue.

A site that was set aside backs off like a failing one, up to a day, and gives the reason; nothing is learned of it. A
fault that hits one site after the other is not caused by the sites. At the twentieth site in a row, with no page read
successfully in between, the fault is raised: the daemon ends with its cause.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from pollerd.daemon.state.poll_result import PollResult
from pollerd.errors import FaultEverywhereError, TooHeavyError
from pollerd.model import NO_ACCESS, Outcome, OutcomeKind
from pollerd.storage import SiteContext
from pollerd.telemetry import Instruments

SITES_IN_A_ROW = 20
"""Consecutive faulty sites that imply that nearly all are affected. A shorter list is set aside as a whole."""
_LONGEST = 300


class Faults:
    """Reports exceptions with their tracebacks, and turns them into results."""

    def __init__(self, instruments: Instruments, clock: Callable[[], float]) -> None:
        self._instruments, self._clock = instruments, clock
        self._in_a_row: set[int] = set()
        """Ids of the sites that raised since a page was last read successfully."""
        self._log = structlog.get_logger("pollerd.faults")

    def set_aside(self, slot: int, context: SiteContext, error: Exception) -> PollResult:
        """Returns the result of a site at which `error` was raised, to be committed in place of the failed one.

        Raises as `report`.
        """
        self.report(context, error)
        return self.unusable(slot, context, reason(context, error))

    def unusable(self, slot: int, context: SiteContext, reason: str) -> PollResult:
        """Returns the result of a site whose stored settings cannot be used."""
        detail = f"set aside: {reason}"
        outcome = Outcome(OutcomeKind.UNDECODABLE, started_at=self._clock(), duration=0.0, detail=detail)
        return PollResult(slot, context, outcome, asked=False)

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
        self._in_a_row.add(context.site_id)
        if len(self._in_a_row) >= SITES_IN_A_ROW:
            sites = f"{len(self._in_a_row)} sites in a row"
            raise FaultEverywhereError(f"{sites} raised, the last: {reason(context, error)}") from error

    def passed(self, result: PollResult) -> None:
        """Notes a committed poll; if it read its page, the run of faults ends."""
        if result.detection is not None and result.detection.kind.informative:
            self._in_a_row.clear()


def reason(context: SiteContext, error: Exception) -> str:
    """Returns one line on the error, without its message if the site has secrets, which it could reveal."""
    if isinstance(error, TooHeavyError):
        return str(error)
    name = type(error).__name__
    words = " ".join(str(error).split()) if context.access is NO_ACCESS else "(not shown)"
    return f"{name}: {words}"[:_LONGEST]
