"""Gaussian process regression on single observations ([B] (4.5)): exact, and cubic in their number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.gpoks.kernel import Kernel


def regress(
    kernel: Kernel, points: NDArray[np.float64], seen_at: NDArray[np.float64], seen: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns mean float64[m] and covariance float64[m, m] of the function at `points` float64[m].

    seen float64[n] are noisy values of it at seen_at float64[n]; the prior mean is 0. [B]'s REGULAR-GPOKS.
    """
    across = kernel.between(points, seen_at)
    inner = kernel.between(seen_at, seen_at) + kernel.noise * np.eye(len(seen))
    mean = across @ np.linalg.solve(inner, seen)
    return mean, kernel.between(points, points) - across @ np.linalg.solve(inner, across.T)
