"""Checks the keys of IndexNow reports, by the file that holds them; what was found is kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from pollerd.crawling.sources.index_now import IndexNowReport, holds_key
from pollerd.model import Outcome, OutcomeKind
from pollerd.urls import origin_of

KEPT_SECONDS = 86_400.0
"""How long a right key counts."""
REFUSED_SECONDS = 600.0
"""How long a wrong one does."""
_MOST_KEPT = 1_000

FetchKey = Callable[[str], Awaitable[Outcome]]
"""Fetches the file at a normalised URL, through the guard and within politeness; a long one is no key file."""


class IndexNowKeys:
    """Keys that were checked. Bounded, whatever is sent."""

    def __init__(self, fetch: FetchKey, clock: Callable[[], float]) -> None:
        self._fetch, self._clock = fetch, clock
        self._checked: OrderedDict[tuple[str, str], tuple[float, bool]] = OrderedDict()
        """(key, its place) -> (until when that counts, whether it is right)."""

    def known(self, report: IndexNowReport) -> bool | None:
        """Returns whether the report's key is right; None: that is not known."""
        until, right = self._checked.get((report.key, report.key_location), (0.0, False))
        return right if until > self._clock() else None

    async def check(self, report: IndexNowReport) -> bool:
        """Returns whether the file holds the key; fetches it unless that is known."""
        known = self.known(report)
        if known is not None:
            return known
        outcome = await self._fetch(report.key_location)
        here = all(origin_of(hop.url) == origin_of(report.key_location) for hop in outcome.redirects)
        right = outcome.kind is OutcomeKind.BODY and here and holds_key(outcome.body or b"", report.key)
        until = self._clock() + (KEPT_SECONDS if right else REFUSED_SECONDS)
        self._checked[report.key, report.key_location] = (until, right)
        if len(self._checked) > _MOST_KEPT:
            self._checked.popitem(last=False)
        return right
