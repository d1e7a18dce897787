"""The policy that [D] improves: poll a site when what waits there exceeds a threshold that the others set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.settings import LspeSettings


def basis(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """`ψ = [1, S, S²]` of each site, float64[n, 3]: S is what waits at all the others.

    In [D] section V, whose last coefficient must be q₂ (it prints q₁ twice), S is a sum of items.
    """
    others = states.sum() - states
    return np.stack([np.ones_like(others), others, others * others], axis=-1)


def levels(
    coefficients: NDArray[np.float64], psi: NDArray[np.float64], low: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Thresholds `q·ψ`, float64[n], projected on [low, 1]; in units of u*, as low = u/u* = 1 - α, float64[n]."""
    return np.asarray(np.clip(np.einsum("ij,ij->i", coefficients, psi), low, 1.0))


def projected(
    coefficients: NDArray[np.float64], psi: NDArray[np.float64], low: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The nearest coefficients float64[n, 3] whose thresholds at psi lie in [low, 1].

    A threshold projected alone would go on running away unseen, and take as long to come back.
    """
    given = np.einsum("ij,ij->i", coefficients, psi)
    beyond = given - np.clip(given, low, 1.0)
    return np.asarray(coefficients - (beyond / np.einsum("ij,ij->i", psi, psi))[:, None] * psi)


def poll_probabilities(margin: NDArray[np.float64], settings: LspeSettings) -> NDArray[np.float64]:
    """`f = σ(κ (x - T - 0.5))`, float64[n], the chance to be polled at margin x - T in units of interest ([D] III)."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * settings.steepness * (margin - settings.shift))))


def score(chance: NDArray[np.float64], polled: NDArray[np.bool_], settings: LspeSettings) -> NDArray[np.float64]:
    """`∂ log p(y | x) / ∂T_i = κ (f_i - ν_i)`, float64[n]: [D] equation 8 for each site, not summed over them."""
    return np.asarray(settings.steepness * (chance - polled))


def softmax_probabilities(
    margin: NDArray[np.float64], alive: NDArray[np.bool_], settings: LspeSettings
) -> NDArray[np.float64]:
    """`p_i = e^(κ' m_i) / Σ e^(κ' m_j)`, float64[n], of margins in units of the mean u*; 0 where not alive.

    The chances of one poll that somebody must get. Its score is `κ' (p_i - ν_i)`, of the same form as [D]'s, whose
    independent chances no budget keeps: who ranks by margins polls other sites than these chances say, and what then
    is climbed is not the average reward.
    """
    logit = np.where(alive, settings.sharpness * margin, -np.inf)
    chance = np.exp(logit - logit.max(initial=-np.inf, where=alive))
    return np.asarray(chance / chance.sum())
