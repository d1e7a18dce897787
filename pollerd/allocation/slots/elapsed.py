"""Finite elapsed times, and the credit with which schedulers meet given frequencies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NEVER_POLLED_S = 1e18
"""Replaces `elapsed = inf`: longer than any real gap, and finite."""
SAME_S = 1e-5
"""Times that differ by less count as equal: epoch seconds in doubles resolve a quarter of a microsecond."""


def finite(elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns elapsed s of any shape as finite numbers >= 0: inf is `NEVER_POLLED_S`, nan and negative values are 0."""
    return np.asarray(np.fmax(np.fmin(elapsed, NEVER_POLLED_S), 0.0))


def credit_after(
    elapsed: NDArray[np.float64], credit: NDArray[np.float64], period: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the total seconds by which polls came late (early: < 0), within one period; all float64[k].

    A poll costs its site one period: a longer or shorter wait counts for its next poll. Within one period, so that a
    site that could not be polled for long does not catch up all at once.
    """
    return np.asarray(np.maximum(np.minimum(elapsed + credit - period, period), -period))
