"""The squared exponential kernel ([B] (4.4)), and the features that it amounts to on a finite index set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.validation import positive

_NEGLIGIBLE = 1e-10
"""Share of the largest eigenvalue below which one is left out: a function moves by 1e-5 of σ_f at most."""


@dataclass(frozen=True)
class Kernel:
    """`K(p, q) = σ_f² exp(-(p - q)² / (2 l²))`; length l, signal σ_f² and noise σ_n² > 0, as [B] has them everywhere.

    The noise of an observation stands beside the kernel and not in it, so that it counts once: [B] writes σ_n² δ into
    the kernel (4.4) and σ_noise² I beside it (4.5), and means one noise by both.
    """

    length: float = 1.0
    signal: float = 1.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        for field in ("length", "signal", "noise"):
            positive(field, getattr(self, field))

    def between(self, p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Covariances of the function at p float64[a] with that at q float64[b]: float64[a, b], without noise."""
        return np.asarray(self.signal * np.exp(-0.5 * ((p[:, None] - q) / self.length) ** 2))


@dataclass(frozen=True)
class IndexSet:
    """Points float64[m] at which a function is known, in rising order, and features float64[m, r].

    A function of the prior is `features @ w` with w standard normal: `features @ features.T` is the kernel's matrix but
    for eigenvalues below 1e-10 of the largest. The kernel is so smooth that r is small: 7 on [0, 1] with l = 1.
    """

    points: NDArray[np.float64]
    features: NDArray[np.float64]
    noise: float


def index_set(points: NDArray[np.float64], kernel: Kernel) -> IndexSet:
    """The index set of the points, with its features."""
    values, vectors = np.linalg.eigh(kernel.between(points, points))
    kept = values > _NEGLIGIBLE * values[-1]
    return IndexSet(points, np.ascontiguousarray(vectors[:, kept] * np.sqrt(values[kept])), kernel.noise)
