"""Change times of pages, drawn in advance, so that the true changes are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BURST_CHANGES = 5
"""Mean number of changes in a burst."""
BURST_SPACING_SECONDS = 1.5
"""Mean time between the changes of a burst."""


def poisson_times(rate: float, begin: float, end: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draws the times of a Poisson process of `rate` per second (>= 0, finite) in [begin, end), ascending float64."""
    count = int(rng.poisson(rate * (end - begin)))
    return np.sort(rng.uniform(begin, end, count))


def bursty_times(rate: float, begin: float, end: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Like `poisson_times` with the same mean rate, but in bursts of about five changes (geometric)."""
    starts = poisson_times(rate / BURST_CHANGES, begin, end, rng)
    sizes = rng.geometric(1 / BURST_CHANGES, len(starts))
    bursts = [
        start + np.concatenate([[0.0], np.cumsum(rng.exponential(BURST_SPACING_SECONDS, size - 1))])
        for start, size in zip(starts, sizes, strict=True)
    ]
    times = np.sort(np.concatenate([np.empty(0), *bursts]))
    return times[times < end]
