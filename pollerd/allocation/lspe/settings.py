"""What the learner of [D] can be told. Where the paper gives a number it is the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pollerd.allocation.slots.validation import between, one_of, positive
from pollerd.errors import InvalidValueError

REWARDS = ("collected", "printed")
INVERSES = ("sherman-morrison", "tikhonov")
LAWS = ("shared", "independent")


@dataclass(frozen=True)
class LspeSettings:
    """Settings of `lspe`. Raises InvalidValueError.

    Given in [D]: steepness κ = 2 per unit of interest and shift 0.5 of independent chances; gain γ = 0.05. Not given
    there, chosen once and never tuned towards its numbers: ascent c = 0.1 of `a(n) = c / ⌈n/500⌉`; ε = 0.001,
    δ = 10⁻⁶; r(0) = 0; level thresholds at the start. Averages take the steps 1/(n + 1).
    """

    reward: Literal["collected", "printed"] = "collected"
    """What a step earns: `Σ X ν`, the objective, or `Σ X` over all sites, as [D]'s equation 6, η and b̄ have it."""

    inverse: Literal["sherman-morrison", "tikhonov"] = "sherman-morrison"
    """How `B̄⁻¹` is had: updated, or as `(B̄ᵀB̄ + δI)⁻¹B̄ᵀ` at each step, which costs the cube of the features."""

    law: Literal["shared", "independent"] = "shared"
    """By which chances sites are polled, and the gradient goes; see `lspe/thresholds.py`."""

    sharpness: float = 50.0
    """κ' of the shared law, in units of the mean u*. Ours."""

    start: float = 0.0
    """q₀(0), projected: thresholds at the start in units of u*, 0 to 1. From 0 whoever ranks by margins is greedy."""

    steepness: float = 2.0
    shift: float = 0.5
    gain: float = 0.05
    ascent: float = 0.1
    epsilon: float = 1e-3
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for name, known in (("reward", REWARDS), ("inverse", INVERSES), ("law", LAWS)):
            one_of(name, getattr(self, name), known)
        for name in ("sharpness", "steepness", "shift", "gain", "ascent", "epsilon", "delta"):
            positive(name, getattr(self, name))
        between("start", self.start, 0, 1)
        if self.gain > 1:
            raise InvalidValueError("gain", "at most 1", self.gain)
