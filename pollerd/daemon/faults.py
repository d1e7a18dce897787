"""A fault of ours that one site brings out: the site is set aside and reported, the rest keep their pace.

A site that was set aside backs off like one that fails, up to a day, and says why; nothing is learned of it.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from pollerd.daemon.finding import Finding
from pollerd.model import NO_ACCESS, Outcome, OutcomeKind
from pollerd.storage import SiteMemory
from pollerd.telemetry import Instruments

_LONGEST = 300


class Faults:
    """Reports what raised, with its traceback, and turns it into a finding like any other."""

    def __init__(self, instruments: Instruments, clock: Callable[[], float]) -> None:
        self._instruments, self._clock = instruments, clock
        self._log = structlog.get_logger("pollerd.faults")

    def set_aside(self, slot: int, memory: SiteMemory, error: Exception) -> Finding:
        """The finding of a site at which `error` was raised, to be committed in place of what it hit."""
        self.report(memory, error)
        return self.unusable(slot, memory, reason(memory, error))

    def unusable(self, slot: int, memory: SiteMemory, reason: str) -> Finding:
        """The finding of a site that cannot be polled as it stands in the database."""
        detail = f"set aside: {reason}"
        outcome = Outcome(OutcomeKind.UNDECODABLE, started_at=self._clock(), duration=0.0, detail=detail)
        return Finding(slot, memory, outcome, asked=False)

    def report(self, memory: SiteMemory, error: Exception) -> None:
        """Says that something raised at the site; to be called where it is handled."""
        self._instruments.site_faults.inc()
        self._log.error("site_fault", site_id=memory.site_id, url=memory.url, exc_info=error)


def reason(memory: SiteMemory, error: Exception) -> str:
    """One line; without the error's words where the site has secrets, which may stand in them."""
    name = type(error).__name__
    words = " ".join(str(error).split()) if memory.access is NO_ACCESS else "(not shown)"
    return f"{name}: {words}"[:_LONGEST]
