"""The policy that [D] improves: polls a site when its state exceeds a threshold that depends on the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.settings import LspeSettings


def basis(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `ψ = [1, S, S²]` of each site, float64[n, 3]: S is the sum of the states of all others.

    In [D] section V, whose last coefficient must be q₂ (it prints q₁ twice), S is a sum of items.
    """
    others = states.sum() - states
    return np.stack([np.ones_like(others), others, others * others], axis=-1)


def levels(
    coefficients: NDArray[np.float64], psi: NDArray[np.float64], low: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns thresholds `q·ψ`, float64[n], clipped to [low, 1]; in units of u*, low = u/u* = 1 - α, float64[n]."""
    return np.asarray(np.clip(np.einsum("ij,ij->i", coefficients, psi), low, 1.0))


def projected(
    coefficients: NDArray[np.float64], psi: NDArray[np.float64], low: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the nearest coefficients float64[n, 3] whose thresholds at psi lie in [low, 1].

    If only the thresholds were clipped, the coefficients would drift beyond the bounds, and take as long to return.
    """
    given = np.einsum("ij,ij->i", coefficients, psi)
    beyond = given - np.clip(given, low, 1.0)
    return np.asarray(coefficients - (beyond / np.einsum("ij,ij->i", psi, psi))[:, None] * psi)


def poll_probabilities(margin: NDArray[np.float64], settings: LspeSettings) -> NDArray[np.float64]:
    """Returns poll probabilities `f = σ(κ (x - T - 0.5))`, float64[n]; margin x - T in units of interest ([D] III)."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * settings.steepness * (margin - settings.shift))))


def score(chance: NDArray[np.float64], polled: NDArray[np.bool_], settings: LspeSettings) -> NDArray[np.float64]:
    """Returns `∂ log p(y | x) / ∂T_i = κ (f_i - ν_i)`, float64[n]: [D] equation 8 for each site, not summed."""
    return np.asarray(settings.steepness * (chance - polled))


def softmax_probabilities(
    margin: NDArray[np.float64], alive: NDArray[np.bool_], settings: LspeSettings
) -> NDArray[np.float64]:
    """Returns `p_i = e^(κ' m_i) / Σ e^(κ' m_j)`, float64[n], of margins in units of the mean u*; 0 where not alive.

    The probabilities that each site gets the one poll. The score is `κ' (p_i - ν_i)`, of the same form as [D]'s, whose
    independent probabilities do not keep the budget: ranking by margins polls other sites than these probabilities
    imply, and then the gradient is not that of the average reward.
    """
    logit = np.where(alive, settings.sharpness * margin, -np.inf)
    chance = np.exp(logit - logit.max(initial=-np.inf, where=alive))
    return np.asarray(chance / chance.sum())
