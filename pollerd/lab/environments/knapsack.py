"""Stochastic nonlinear fractional knapsack of [A] 2.2 and [B] 2.3: feedback drawn from `d_i(x_i)` at the mix.

There are no page changes and no gaps: the input is a mix x, the output a draw. Real gaps are in changes.py.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.slots import column
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.driving import EPOCH_S, STEP_S


class Knapsack:
    """n materials (pages) with change probabilities p float64[n] per step, each above 0 and below 1; capacity 1."""

    def __init__(self, p: NDArray[np.float64]) -> None:
        self.p = column("p", p, len(p))
        if (self.p >= 1).any():
            raise InvalidValueError("p", "below 1", p)
        self.rate = -np.log1p(-self.p)

    def detection(self, mix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns `d_i(x_i) = 1 - (1 - p_i)^(1/x_i)` for mixes float64[..., n] of amounts >= 0; 1 at amount 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(-self.rate / mix))

    def value(self, mix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns `Σ x_i d_i(x_i)` of mixes float64[..., n], float64[...]: expected detections per step."""
        return np.asarray((mix * self.detection(mix)).sum(-1))

    @property
    def best_mix(self) -> NDArray[np.float64]:
        """`x_i = λ_i / Σλ` with `λ = -ln(1 - p)`, where all d_i are equal, [A] 4.2; float64[n]."""
        return np.asarray(self.rate / self.rate.sum())

    @property
    def optimum(self) -> float:
        """Value of the best mix, `1 - Π(1 - p)`."""
        return -math.expm1(-float(self.rate.sum()))


def drive_knapsack(
    allocator: Allocator,
    knapsack: Knapsack,
    steps: int,
    rng: np.random.Generator,
    noise: float = 0.0,
    *,
    by_chance: bool = False,
) -> NDArray[np.float64]:
    """Returns the value `Σ x_i d_i(x_i)` of the mix in each step, float64[steps], of an empty allocator with `shares`.

    In each step it selects a material and observes a draw of that material's d_i at the current mix. noise: the white
    noise of [B] (2.3), see `noisy`. The draws are for learning; the value is the expectation. by_chance: the material
    is drawn in proportion to its amount, as [B] 6.2 does for GPOKS, in place of the allocator's own choice. Raises
    InvalidValueError for an allocator without a mix, and for invalid noise.
    """
    slots, n = np.arange(len(knapsack.p)), len(knapsack.p)
    allocator.add(slots, np.ones(n), np.ones(n))
    last, eligible, values = np.full(n, EPOCH_S), np.ones(n, np.bool_), np.empty(steps)
    for step in range(steps):
        now = EPOCH_S + (step + 1) * STEP_S
        chosen = allocator.select(now - last, now, eligible, 1)
        amounts = allocator.shares(slots)
        if amounts is None:
            raise InvalidValueError(
                "allocator", "one that holds a mix, as htraa, lakg and gpoks do", type(allocator).__name__
            )
        mix = amounts / amounts.sum()
        values[step] = knapsack.value(mix)
        if by_chance:
            chosen = drawn(mix[None], rng)
        chance = noisy(knapsack.detection(mix)[chosen], noise, rng)
        allocator.observe(chosen, now - last[chosen], EvidenceBatch(rng.random(1) < chance), now)
        last[chosen] = now
    return values


def drawn(mix: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draws a material for each mix float64[k, n], int64[k], with probabilities in proportion to the amounts."""
    ladder = np.cumsum(mix, axis=1)
    return np.asarray((rng.random(len(mix))[:, None] * ladder[:, -1:] >= ladder).sum(1))


def check_noise(noise: float) -> None:
    """Raises InvalidValueError for a standard deviation that is below 0 or not finite."""
    if not 0 <= noise < math.inf:
        raise InvalidValueError("noise", "finite and >= 0 in the knapsack", noise)


def noisy(detection: NDArray[np.float64], noise: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Returns detection probabilities plus white noise of standard deviation `noise`, clipped to [0, 1] ([B] 2.3).

    Raises InvalidValueError as `check_noise` does.
    """
    check_noise(noise)
    if noise == 0:
        return detection
    return np.clip(detection + rng.normal(0.0, noise, detection.shape), 0.0, 1.0)
