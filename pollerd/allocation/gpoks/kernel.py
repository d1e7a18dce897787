"""Squared exponential kernel ([B] (4.4)), and the equivalent features on a finite index set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.validation import positive

_NEGLIGIBLE = 1e-10
"""Share of the largest eigenvalue below which one is dropped: a function changes by at most 1e-5 of σ_f."""


@dataclass(frozen=True)
class Kernel:
    """`K(p, q) = σ_f² exp(-(p - q)² / (2 l²))`; length l, signal σ_f² and noise σ_n² > 0, with [B]'s usual values.

    The noise of an observation is separate from the kernel, so that it counts once: [B] writes σ_n² δ into the kernel
    (4.4) and σ_noise² I beside it (4.5), and means the same noise.
    """

    length: float = 1.0
    signal: float = 1.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        for field in ("length", "signal", "noise"):
            positive(field, getattr(self, field))

    def between(self, p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns covariances of the function between p float64[a] and q float64[b]: float64[a, b], without noise."""
        return np.asarray(self.signal * np.exp(-0.5 * ((p[:, None] - q) / self.length) ** 2))


@dataclass(frozen=True)
class IndexSet:
    """Points float64[m] of a function, ascending, and features float64[m, r].

    A function of the prior is `features @ w` with w standard normal: `features @ features.T` is the kernel matrix
    except for eigenvalues below 1e-10 of the largest. The kernel is so smooth that r is small: 7 on [0, 1] with l = 1.
    """

    points: NDArray[np.float64]
    features: NDArray[np.float64]
    noise: float


def index_set(points: NDArray[np.float64], kernel: Kernel) -> IndexSet:
    """Returns the index set of the points, with its features."""
    values, vectors = np.linalg.eigh(kernel.between(points, points))
    kept = values > _NEGLIGIBLE * values[-1]
    return IndexSet(points, np.ascontiguousarray(vectors[:, kept] * np.sqrt(values[kept])), kernel.noise)
