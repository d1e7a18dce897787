"""In what order equals come: not in that of their slots.

Lists are often sorted, the pages that change most first. Polled in that order, what is learned first is learned of
those alone: on 512 sorted pages `whittle` took a quarter for fast drifters, where none drifts. Steps of the golden
section of the list put neighbours far apart.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

GOLDEN_SECTION = (math.sqrt(5.0) - 1.0) / 2.0
_DIFFERENCE = 2.0**-32
"""By so much, at most, indices differ that would be equal: more than rounding, less than anything that is known."""


def tie_breaks(slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Factors for the indices of slots int64[k], from 1 to 1 + 2^-32, float64[k]."""
    steps = slots * GOLDEN_SECTION
    return np.asarray(1.0 + _DIFFERENCE * (steps - np.floor(steps)))
