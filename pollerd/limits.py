"""One rate limit for all that is counted: leaky buckets by key."""

from __future__ import annotations

from collections import OrderedDict

MAX_KEYS = 10_000
REPORT_COST = 10.0
"""Least units of a report of signals or reads: each is a transaction, however short."""


class LeakyBuckets:
    """A leaky bucket for each of the last `most_keys` keys that were added to: as a meter (ITU-T I.371, Turner 1986).

    A bucket holds up to `size` units and leaks `per_second`: so many pass at once, and so many a second in the long
    run. Pure: `now` is in seconds of one clock. What is counted is up to the caller: attempts, URLs, messages.
    """

    def __init__(self, size: float, per_second: float, *, most_keys: int = MAX_KEYS) -> None:
        """size: units, above 0. per_second: units per second, above 0."""
        self._size, self._per_second, self._most_keys = size, per_second, most_keys
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Key -> units, and when that was (s). In order of the last addition."""

    def __len__(self) -> int:
        """Returns the number of keys."""
        return len(self._levels)

    def _level(self, key: str, now: float) -> float:
        level, at = self._levels.get(key, (0.0, now))
        return max(level - (now - at) * self._per_second, 0.0)

    def wait(self, now: float, key: str = "", units: float = 1.0) -> float:
        """Returns the seconds until so many units more fit; 0: now."""
        return max(self._level(key, now) + units - self._size, 0.0) / self._per_second

    def add(self, now: float, key: str = "", units: float = 1.0) -> None:
        """Adds units, also where they do not fit."""
        self._levels[key] = self._level(key, now) + units, now
        self._levels.move_to_end(key)
        if len(self._levels) > self._most_keys:
            self._levels.popitem(last=False)

    def take(self, now: float, key: str = "", units: float = 1.0) -> float:
        """Adds units if they fit; otherwise returns the seconds until they do, and adds none."""
        wait = self.wait(now, key, units)
        if wait <= 0:
            self.add(now, key, units)
        return wait

    def take_back(self, now: float, key: str = "", units: float = 1.0) -> None:
        """Takes an addition back."""
        if key in self._levels:
            self._levels[key] = max(self._level(key, now) - units, 0.0), now
