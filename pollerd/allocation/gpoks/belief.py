"""Gaussian process regression from counts and sums at each point of a finite index set ([B] 6.3.1, FAST-GPOKS)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.gpoks.kernel import IndexSet


@dataclass(frozen=True)
class GaussianBelief:
    """Posterior of k functions on one index set of m points.

    mean float64[k, m]: posterior means. root float64[k, m, r]: a function is `mean + root @ z` with z standard normal,
    so `root @ root.T` is its covariance.
    """

    mean: NDArray[np.float64]
    root: NDArray[np.float64]

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Posterior standard deviation at each point, float64[k, m]."""
        return np.asarray(np.sqrt((self.root**2).sum(-1)))

    def take(self, rows: NDArray[np.int64]) -> GaussianBelief:
        """Selects rows."""
        return GaussianBelief(self.mean[rows], self.root[rows])


def believe(
    index: IndexSet,
    counts: NDArray[np.float64],
    sums: NDArray[np.float64],
    prior: NDArray[np.float64] | float = 0.0,
) -> GaussianBelief:
    """Returns the posterior after counts float64[k, m] observations with the sums float64[k, m] at each point.

    prior: the prior mean, float64[m] or one number. Exact on the index set: n observations at a point are equivalent to
    their average with noise `σ_n² / n`. The cost does not depend on their number. In terms of the features' weights w
    the prior is N(0, I), and the posterior precision `I + Φ' diag(counts) Φ / σ_n²` has r rows; [B] inverts m rows.
    """
    features, noise = index.features, index.noise
    precision = np.eye(features.shape[1]) + features.T @ (counts[:, :, None] * features) / noise
    inverse = np.linalg.inv(np.linalg.cholesky(precision))
    gradient = ((sums - counts * prior) @ features) / noise
    weights = np.swapaxes(inverse, 1, 2) @ (inverse @ gradient[..., None])
    return GaussianBelief(prior + weights[..., 0] @ features.T, features @ np.swapaxes(inverse, 1, 2))
