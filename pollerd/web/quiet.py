"""Quiet numbers: noise ignored, sooner than equal timers, and the machine used; each measured."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.storage.history import WorkSum
from pollerd.web.page import Page

_DAY_SECONDS = 86_400.0
_MONTH_SECONDS = 30 * _DAY_SECONDS
_KEPT_SECONDS = 60.0
"""For so long the numbers are not read again."""
_CHANGES_ENOUGH = 30
"""Fewer changes say little of how soon they are found."""


@dataclass(frozen=True, slots=True)
class Sooner:
    """How soon changes are learned, beside equal timers with as many polls."""

    ratio: float
    """Above 1: sooner."""
    delay: float
    """Mean seconds from a change to its poll: half of the time since the poll before."""
    equal_delay: float
    """The same if each site were polled equally often: half of the time between two polls of a site."""
    changes: int
    days: float
    """Time of which it is known."""


@dataclass(frozen=True, slots=True)
class QuietNumbers:
    """The numbers. None: too little is known yet."""

    hours: float
    """Time of which the numbers of the day are, at most 24."""
    ignored: int
    core: float | None
    """Share of a core."""
    megabytes: float | None
    """Bodies of answers, after decompression."""
    sooner: Sooner | None


async def quiet_numbers(page: Page) -> QuietNumbers:
    """Returns the numbers of the last day, and of the last 30 days; at most a minute old."""
    known: tuple[float, QuietNumbers] | None = page.web.kept.get("quiet")
    if known is not None and 0 <= page.now - known[0] < _KEPT_SECONDS:
        return known[1]
    history = page.ports.store.history
    day, month = await history.work_since(page.now - _DAY_SECONDS), await history.work_since(page.now - _MONTH_SECONDS)
    numbers = QuietNumbers(
        hours=day.seconds / 3_600.0,
        ignored=day.ignored,
        core=day.cpu / day.seconds if day.seconds else None,
        megabytes=day.bytes / 1e6 if day.seconds else None,
        sooner=sooner(month),
    )
    page.web.kept["quiet"] = (page.now, numbers)
    return numbers


def sooner(work: WorkSum) -> Sooner | None:
    """Returns how much sooner changes are learned than with equal timers; None: too little is known."""
    if work.changes < _CHANGES_ENOUGH or not work.polls or work.mean_gap <= 0:
        return None
    equal_delay, delay = work.site_seconds / work.polls / 2.0, work.mean_gap / 2.0
    return Sooner(equal_delay / delay, delay, equal_delay, work.changes, work.seconds / _DAY_SECONDS)
