"""How many reports of changes programs may send."""

from __future__ import annotations

from collections.abc import Callable

from pollerd.errors import TooManyError

REPORT_COST = 10
"""Least cost of a report, in URLs: each is a transaction, however short."""


class ReportLimit:
    """A leaky bucket over what is reported, such as the URLs of all sources. Holds two numbers, whatever is sent."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        most: float = 50_000,
        per_second: float = 500,
        least: int = REPORT_COST,
        what: str = "signals",
    ) -> None:
        """most: URLs at once, at least the longest report's. per_second: URLs in the long run. clock: s, never back.

        least: what a report costs at least. what: is reported, in words.
        """
        self._what = what
        self._clock, self._most, self._per_second, self._least = clock, most, per_second, least
        self._level, self._at = 0.0, clock()

    def take(self, urls: int) -> None:
        """Counts a report of so many URLs. Raises `TooManyError` with the seconds until it fits; it is not counted."""
        now, cost = self._clock(), max(urls, self._least)
        level = max(self._level - (now - self._at) * self._per_second, 0.0)
        if level + cost > self._most:
            raise TooManyError(self._what, (level + cost - self._most) / self._per_second)
        self._level, self._at = level + cost, now
