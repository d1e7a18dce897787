"""How many reports programs may send: of changes, of reads."""

from __future__ import annotations

from collections.abc import Callable

from pollerd.errors import TooManyError
from pollerd.limits.leaky_buckets import LeakyBucket

REPORT_COST = 10
"""Least cost of a report, in what it reports: each is a transaction, however short."""


class ReportLimit:
    """Bounds what is reported, such as the URLs of all sources."""

    def __init__(self, clock: Callable[[], float], *, most: float, per_second: float, what: str) -> None:
        """most: at once, at least what the longest report holds. per_second: in the long run. clock: s, never back.

        what: is reported, in words.
        """
        self._bucket, self._what = LeakyBucket(most, per_second, clock), what

    def take(self, number: int) -> None:
        """Counts a report of so many. Raises `TooManyError` with the seconds until it fits; it is not counted then."""
        cost = max(number, REPORT_COST)
        wait = self._bucket.wait(cost)
        if wait > 0:
            raise TooManyError(self._what, wait)
        self._bucket.add(cost)
