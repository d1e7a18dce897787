"""Rate limits: leaky buckets, single and by key, and the limit of reports that programs send."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from pollerd.errors import TooManyError

MAX_KEYS = 10_000


class LeakyBucket:
    """Holds up to `size` units and leaks `per_second`. Only its level is stored, whatever is added."""

    __slots__ = ("_at", "_clock", "_level", "_per_second", "_size")

    def __init__(self, size: float, per_second: float, clock: Callable[[], float]) -> None:
        """size: units, above 0. per_second: units per second, above 0. clock: s, never back."""
        self._size, self._per_second, self._clock = size, per_second, clock
        self._level, self._at = 0.0, clock()

    def _level_at(self, now: float) -> float:
        return max(self._level - (now - self._at) * self._per_second, 0.0)

    def wait(self, units: float = 1.0) -> float:
        """Returns the seconds until so many more fit; 0: now."""
        return max(self._level_at(self._clock()) + units - self._size, 0.0) / self._per_second

    def add(self, units: float = 1.0) -> None:
        """Adds units, also where they do not fit."""
        now = self._clock()
        self._level, self._at = self._level_at(now) + units, now

    def take_back(self, units: float = 1.0) -> None:
        """Takes an addition back."""
        now = self._clock()
        self._level, self._at = max(self._level_at(now) - units, 0.0), now


class LeakyBuckets:
    """Leaky buckets of this `size` that leak `per_second`, for the last `most_keys` keys that were added to."""

    def __init__(
        self, size: float, per_second: float, clock: Callable[[], float], *, most_keys: int = MAX_KEYS
    ) -> None:
        self._size, self._per_second, self._clock, self._most_keys = size, per_second, clock, most_keys
        self._buckets: OrderedDict[str, LeakyBucket] = OrderedDict()
        """In order of the last addition."""

    def __len__(self) -> int:
        """Returns the number of keys."""
        return len(self._buckets)

    def wait(self, key: str) -> float:
        """Returns the seconds until one more fits; 0: now."""
        bucket = self._buckets.get(key)
        return 0.0 if bucket is None else bucket.wait()

    def add(self, key: str) -> None:
        """Adds one."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = LeakyBucket(self._size, self._per_second, self._clock)
        bucket.add()
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._most_keys:
            self._buckets.popitem(last=False)

    def take_back(self, key: str) -> None:
        """Takes one addition back."""
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.take_back()


# The limit of reports that programs send: of changed pages and of reads.

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
