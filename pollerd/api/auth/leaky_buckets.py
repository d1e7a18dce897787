"""Leaky buckets by key: what happens at most so often, with bursts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

MOST_KEYS = 10_000


class LeakyBuckets:
    """Leaky buckets of this `size` that leak `per_second`, for the last `MOST_KEYS` keys."""

    def __init__(self, size: float, per_second: float, clock: Callable[[], float]) -> None:
        self._size, self._per_second, self._clock = size, per_second, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Key -> (level, its time); in order of the last addition."""

    def __len__(self) -> int:
        """Returns the number of keys."""
        return len(self._levels)

    def _level(self, key: str) -> float:
        level, at = self._levels.get(key, (0.0, 0.0))
        return max(level - (self._clock() - at) * self._per_second, 0.0)

    def wait(self, key: str) -> float:
        """Returns the seconds until one more fits."""
        return max(self._level(key) + 1 - self._size, 0.0) / self._per_second

    def add(self, key: str) -> None:
        """Adds one."""
        self._levels[key] = (self._level(key) + 1, self._clock())
        self._levels.move_to_end(key)
        if len(self._levels) > MOST_KEYS:
            self._levels.popitem(last=False)

    def take_back(self, key: str) -> None:
        """Takes one addition back."""
        if key in self._levels:
            self._levels[key] = (max(self._level(key) - 1, 0.0), self._clock())
