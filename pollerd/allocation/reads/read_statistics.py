"""Sufficient statistics of the reads of one site's changes, for the rate μ at which interest decays.

Reads of a change at age a come at a rate proportional to e^(-μ a), while the change is exposed: from its publication
until the page's next change, T seconds. Given how many came, their ages are independent with the density
μ e^(-μ a) / (1 - e^(-μ T)) on 0 to T: how popular a change is drops out. So the log-likelihood of all is

    ℓ(μ) = N log μ - μ S - Σ n_j log(1 - e^(-μ T_j)),    N = Σ n_j,    S = Σ ages

and needs of n_j reads of change j only their number, the sum of their ages, and T_j. Exposures are kept as a histogram
over log T, each shared by the two nearest places: with a step of .35 the error of a read's term is below .007.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError

_STEP = 0.35
"""Distance of neighbouring exposures in log s."""
EXPOSURES: NDArray[np.float64] = np.exp(_STEP * np.arange(60))
"""Exposures of the histogram, float64[60] in s, from 1 s to 29 years."""
MOST_OF_CHANGE = 20.0
"""As so many reads count those of one change at most: they share what made it interesting, and are not independent."""
KEPT_SHARE = 0.95
"""Share of the statistics that stays when another change is added: about the last 20 changes that were read count."""
_VERSION = 1
_STORED = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class ReadStatistics:
    """ages: Σ of the ages, weighted, s. reads: weighted reads by exposure, float64[60]."""

    ages: float = 0.0
    reads: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(EXPOSURES)))

    def with_reads(self, number: float, ages: float, exposure: float) -> ReadStatistics:
        """Returns these with so many reads more of one change: number > 0, sum of ages >= 0 in s, exposure > 0 in s."""
        weight = min(1.0, MOST_OF_CHANGE / number)
        place = min(max(float(np.log(max(exposure, 1.0))) / _STEP, 0.0), len(EXPOSURES) - 1.0)
        low = min(int(place), len(EXPOSURES) - 2)
        reads = self.reads.copy()
        reads[low] += weight * number * (low + 1 - place)
        reads[low + 1] += weight * number * (place - low)
        return ReadStatistics(self.ages + weight * min(ages, number * max(exposure, 1.0)), reads)

    def faded(self) -> ReadStatistics:
        """Returns these as they count when another change follows: interest may decay otherwise by now."""
        return ReadStatistics(self.ages * KEPT_SHARE, self.reads * KEPT_SHARE)

    def to_bytes(self) -> bytes:
        """Returns them for storage, 245 bytes."""
        values = np.concatenate([[self.ages], self.reads]).astype(_STORED)
        return bytes([_VERSION]) + values.tobytes()

    @classmethod
    def from_bytes(cls, stored: bytes) -> ReadStatistics:
        """Returns stored statistics. Raises `InvalidValueError` for bytes of another version, or damaged ones."""
        fits = len(stored) == 1 + (1 + len(EXPOSURES)) * _STORED.itemsize and stored[0] == _VERSION
        values = np.frombuffer(stored[1:], _STORED).astype(np.float64) if fits else np.full(1, np.nan)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise InvalidValueError("statistics", "reads as this version stores them", f"{len(stored)} bytes")
        return cls(float(values[0]), values[1:])
