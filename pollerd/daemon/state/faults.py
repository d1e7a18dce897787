"""A fault of ours that one site brings out: the site is set aside and reported, the rest keep their pace.

A site that was set aside backs off like one that fails, up to a day, and says why; nothing is learned of it.

What raises at one site after the other is no site's doing. At the twentieth site in a row, with no page read well in
between, the fault is raised: the daemon ends with its cause.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from pollerd.daemon.state.poll_result import PollResult
from pollerd.errors import FaultEverywhereError
from pollerd.model import NO_ACCESS, Outcome, OutcomeKind
from pollerd.storage import SiteContext
from pollerd.telemetry import Instruments

SITES_IN_A_ROW = 20
"""So many raise one after the other only where nearly all do. A shorter list is set aside as a whole."""
_LONGEST = 300


class Faults:
    """Reports what raised, with its traceback, and turns it into a result like any other."""

    def __init__(self, instruments: Instruments, clock: Callable[[], float]) -> None:
        self._instruments, self._clock = instruments, clock
        self._in_a_row: set[int] = set()
        """Ids of the sites that raised since a page was last read well."""
        self._log = structlog.get_logger("pollerd.faults")

    def set_aside(self, slot: int, context: SiteContext, error: Exception) -> PollResult:
        """The result of a site at which `error` was raised, to be committed in place of what it hit.

        Raises as `report`.
        """
        self.report(context, error)
        return self.unusable(slot, context, reason(context, error))

    def unusable(self, slot: int, context: SiteContext, reason: str) -> PollResult:
        """The result of a site that cannot be polled as it stands in the database."""
        detail = f"set aside: {reason}"
        outcome = Outcome(OutcomeKind.UNDECODABLE, started_at=self._clock(), duration=0.0, detail=detail)
        return PollResult(slot, context, outcome, asked=False)

    def report(self, context: SiteContext, error: Exception) -> None:
        """Says that something raised at the site; to be called where it is handled.

        Raises FaultEverywhereError, caused by `error`, at the twentieth site in a row; hands on one that is under way.
        """
        if isinstance(error, FaultEverywhereError):
            raise error
        self._instruments.site_faults.inc()
        self._log.error("site_fault", site_id=context.site_id, url=context.url, exc_info=error)
        self._in_a_row.add(context.site_id)
        if len(self._in_a_row) >= SITES_IN_A_ROW:
            sites = f"{len(self._in_a_row)} sites in a row"
            raise FaultEverywhereError(f"{sites} raised, the last: {reason(context, error)}") from error

    def passed(self, result: PollResult) -> None:
        """Takes note of a poll that went well to the end, its commit: where it read its page, the row is broken."""
        if result.detection is not None and result.detection.kind.informative:
            self._in_a_row.clear()


def reason(context: SiteContext, error: Exception) -> str:
    """One line; without the error's words where the site has secrets, which may stand in them."""
    name = type(error).__name__
    words = " ".join(str(error).split()) if context.access is NO_ACCESS else "(not shown)"
    return f"{name}: {words}"[:_LONGEST]
