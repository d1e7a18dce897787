"""Settings of the learner of [D]. Numbers given in the paper are the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pollerd.allocation.slots.validation import between, one_of, positive
from pollerd.errors import InvalidValueError

REWARDS = ("collected", "printed")
INVERSES = ("sherman-morrison", "tikhonov")
LAWS = ("shared", "independent")
AVERAGES = ("all", "slow")


@dataclass(frozen=True)
class LspeSettings:
    """Settings of `lspe`. Raises InvalidValueError.

    Given in [D]: steepness κ = 2 per unit of interest and shift 0.5 of independent probabilities; gain γ = 0.05. Not
    given there, chosen once and never tuned to match its numbers: ascent c = 0.1 of `a(n) = c / ⌈n/500⌉`; ε = 0.001, δ
    = 10⁻⁶; r(0) = 0; constant initial thresholds.
    """

    reward: Literal["collected", "printed"] = "collected"
    """Reward of a step: `Σ X ν`, the objective, or `Σ X` over all sites, as in [D]'s equation 6, η and b̄."""

    inverse: Literal["sherman-morrison", "tikhonov"] = "sherman-morrison"
    """How `B̄⁻¹` is computed: updated, or as `(B̄ᵀB̄ + δI)⁻¹B̄ᵀ` at each step, cubic in the number of features."""

    law: Literal["shared", "independent"] = "shared"
    """Probability law of polls and of the gradient; see `lspe/thresholds.py`."""

    averages: Literal["all", "slow"] = "all"
    """Steps of η, B̄, Ā, b̄: 1/(n + 1), all steps alike, or [D]'s `b(n) = c / ⌈n/1000⌉^(2/3)`, which needs "tikhonov"."""

    sharpness: float = 50.0
    """κ' of the shared law, in units of the mean u*. Not from [D]."""

    start: float = 0.0
    """q₀(0), projected: initial thresholds in units of u*, 0 to 1. At 0 ranking by margins is greedy."""

    steepness: float = 2.0
    shift: float = 0.5
    gain: float = 0.05
    ascent: float = 0.1
    epsilon: float = 1e-3
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for name, known in (("reward", REWARDS), ("inverse", INVERSES), ("law", LAWS), ("averages", AVERAGES)):
            one_of(name, getattr(self, name), known)
        for name in ("sharpness", "steepness", "shift", "gain", "ascent", "epsilon", "delta"):
            positive(name, getattr(self, name))
        between("start", self.start, 0, 1)
        if self.averages == "slow" and self.inverse != "tikhonov":
            raise InvalidValueError("averages", "all, where inverse is sherman-morrison", self.averages)
        if self.gain > 1:
            raise InvalidValueError("gain", "at most 1", self.gain)
