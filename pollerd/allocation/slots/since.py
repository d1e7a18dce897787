"""Seconds since the last polls of millions of slots, worked out for those that are looked at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Since:
    """Reads as the array of what has elapsed, float64[n] s, inf where a slot was never polled."""

    def __init__(self, last_seen: NDArray[np.float64], now: float) -> None:
        """last_seen float64[n], epoch s, -inf: never; `now` epoch s. Nobody may write into it meanwhile."""
        self._last_seen, self._now = last_seen, now

    def __getitem__(self, part: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        since = self._now - self._last_seen[part]
        return np.maximum(since, 0.0, out=since)
