"""Quiet numbers: noise ignored, sooner than equal timers, and the machine used; each measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pollerd.allocation.index import Delays
from pollerd.storage.history import WorkSum
from pollerd.web.page import Page

_DAY_SECONDS = 86_400.0
_MONTH_SECONDS = 30 * _DAY_SECONDS
_KEPT_SECONDS = 60.0
"""For so long the numbers are not read again."""
_CHANGES_ENOUGH = 30
"""Fewer changes say little of how soon they are found."""
_GAPS_MOST = 10_000
"""Changes of which half are said to be seen within some time: the newest."""
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Sooner:
    """How soon changes are learned, beside equal timers with as many polls."""

    ratio: float
    """Above 1: sooner."""
    delay: float
    """Mean seconds from a change to its poll: half of the time since the poll before."""
    equal_delay: float
    """The same if each site were polled equally often: half of the time between two polls of a site."""
    half_within: float
    """Seconds within which half of the changes are learned."""
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
    gaps = await history.gaps_of_changes(page.now - _MONTH_SECONDS, _GAPS_MOST)
    numbers = QuietNumbers(
        hours=day.seconds / 3_600.0,
        ignored=day.ignored,
        core=day.cpu / day.seconds if day.seconds else None,
        megabytes=day.bytes / 1e6 if day.seconds else None,
        sooner=sooner(month, gaps),
    )
    page.web.kept["quiet"] = (page.now, numbers)
    return numbers


def sooner(work: WorkSum, gaps: Sequence[float]) -> Sooner | None:
    """Returns how much sooner changes are learned than with equal timers; None: too little is known.

    gaps: seconds between the poll of each change and the one before, > 0. A change is as likely at any time in between.
    """
    if work.changes < _CHANGES_ENOUGH or not work.polls or work.mean_gap <= 0:
        return None
    equal_delay, delay = work.site_seconds / work.polls / 2.0, work.mean_gap / 2.0
    half = Delays(np.array(gaps), np.ones(len(gaps))).quantile(_HALF)
    return Sooner(equal_delay / delay, delay, equal_delay, half, work.changes, work.seconds / _DAY_SECONDS)
