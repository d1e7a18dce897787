"""Features of [D]: the states and their products, for a changing set of sites."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Features:
    """`φ = [x_1 … x_N, x_1², x_1 x_2 … x_N²]` of relative states x/u*, float64[positions].

    Ordered by the later of the two positions, so that the features of a new one come after all others. A site without
    content and a free position have x = 0, and all features that involve them are 0. The scale affects the
    coefficients, but not what they can express.
    """

    def __init__(self, positions: int) -> None:
        later = np.repeat(np.arange(positions), np.arange(positions) + 2)
        start = np.arange(positions) * (np.arange(positions) + 3) // 2
        within = np.arange(len(later)) - start[later]
        self._later, self._other = later, np.where(within == 0, positions, within - 1)

    def __len__(self) -> int:
        return len(self._later)

    def of(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns φ, float64[ℓ], of states float64[positions]."""
        extended = np.append(states, 1.0)
        return np.asarray(extended[self._later] * extended[self._other])

    def with_positions(self, positions: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns which features, bool[ℓ], involve one of positions bool[positions]."""
        extended = np.append(positions, False)
        return np.asarray(extended[self._later] | extended[self._other])
