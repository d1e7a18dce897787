"""Breaks ties by a low-discrepancy order, so that equal sites are spread over the list.

Lists are often sorted, the pages that change most first. In slot order, the first polls would sample only those: on 512
sorted pages `whittle` took a quarter for fast drifters, though none drifts. Steps of the golden section of the list put
neighbours far apart.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

GOLDEN_SECTION = (math.sqrt(5.0) - 1.0) / 2.0
_DIFFERENCE = 2.0**-32
"""Largest relative difference added to equal indices: more than rounding, less than any real difference."""


def tie_breaks(slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns factors for the indices of slots int64[k], from 1 to 1 + 2^-32, float64[k]."""
    steps = slots * GOLDEN_SECTION
    return np.asarray(1.0 + _DIFFERENCE * (steps - np.floor(steps)))
