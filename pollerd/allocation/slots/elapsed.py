"""Times since last polls as numbers to count with, and the credit by which schedulers make frequencies come out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NEVER_POLLED_S = 1e18
"""Stands for `elapsed = inf`: longer than any real gap, and finite."""
SAME_S = 1e-5
"""Moments that differ by less are one: epoch seconds in doubles resolve a quarter of a microsecond."""


def finite(elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Elapsed s of any shape as finite numbers >= 0: inf is `NEVER_POLLED_S`, nan and what lies ahead is 0."""
    return np.asarray(np.fmax(np.fmin(elapsed, NEVER_POLLED_S), 0.0))


def credit_after(
    elapsed: NDArray[np.float64], credit: NDArray[np.float64], period: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Seconds that polls came late (early: < 0) by all that is known, within one period; float64[k], as all arguments.

    A poll costs its site one period: what it waited longer or shorter counts for its next. Within one period, so that a
    site that could not be polled for long does not make up for it all at once.
    """
    return np.asarray(np.maximum(np.minimum(elapsed + credit - period, period), -period))
