"""Seconds since the last polls of millions of slots, computed on access."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Since:
    """Behaves like the array of elapsed times, float64[n] s, inf for slots never polled."""

    def __init__(self, last_seen: NDArray[np.float64], now: float) -> None:
        """last_seen float64[n], epoch s, -inf: never; `now` epoch s. The array must not change meanwhile."""
        self._last_seen, self._now = last_seen, now

    def __getitem__(self, part: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        since = self._now - self._last_seen[part]
        return np.maximum(since, 0.0, out=since)
