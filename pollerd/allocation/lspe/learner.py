"""The full learner of [D]: thresholds that follow the gradient of the average reward, with values from LSPE(0)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.evaluation import Evaluation
from pollerd.allocation.lspe.features import Features
from pollerd.allocation.lspe.observation import Observation, Transition
from pollerd.allocation.lspe.settings import LspeSettings
from pollerd.allocation.lspe.thresholds import levels, poll_probabilities, projected, score, softmax_probabilities

ASCENT_STEPS = 500
"""Steps per decrease of the step size: `a(n) = c / ⌈n/500⌉` ([D] section IV)."""


class Learner:
    """Learns from one trajectory of observations and polls.

        q(n+1) = q(n) + a(n) ∇log p(X(n+1) | X(n)) · advantage

    With the collected reward `R = Σ X ν` the policy also changes the reward of a step, so the gradient of β needs R
    besides V: the advantage is `R - η t + V(X(n+1)) - V(X(n))`. ([D]'s equations 7 and 9 have V(X(n+1)) alone, which is
    correct for its printed reward `Σ X` over all sites, and is used with that; it has no baseline.) The step is taken
    in units of u* and of the mean u*: per site a constant times [D]'s. With the shared law it is divided by κ'², so
    that it is small compared with the margins that the law distinguishes; for k polls at once its probabilities are
    taken as k p. A step costs O(ℓ²) for the ℓ = n (n + 3) / 2 features of n positions.
    """

    def __init__(self, positions: int, settings: LspeSettings) -> None:
        self._settings = settings
        self._features = Features(positions)
        self.evaluation = Evaluation(len(self._features), settings)
        self.coefficients = self._fresh(positions)
        """q, float64[positions, 3], in units of u*."""

    def _fresh(self, positions: int) -> NDArray[np.float64]:
        """Returns q of new sites: constant thresholds."""
        return np.tile([self._settings.start, 0.0, 0.0], (positions, 1))

    def thresholds(self, observation: Observation) -> NDArray[np.float64]:
        """Returns the thresholds T at each position in units of interest, float64[positions]."""
        return observation.ceiling * levels(self.coefficients, observation.psi, observation.low)

    def poll_probabilities(self, observation: Observation) -> NDArray[np.float64]:
        """Returns poll probabilities float64[positions]: of independent polls, or of getting the one poll."""
        margin = observation.waiting - self.thresholds(observation)
        if self._settings.law == "independent":
            return poll_probabilities(margin, self._settings)
        return softmax_probabilities(margin / observation.scale, observation.ceiling > 0, self._settings)

    def learn(self, step: Transition, after: Observation) -> None:
        """Learns from one step and the observation after it."""
        printed = self._settings.reward == "printed"
        reward = float(step.observation.waiting.sum()) if printed else step.collected
        phi, following = self._features.of(step.observation.filled), self._features.of(after.filled)
        values = self.evaluation
        advantage = values.value(following)
        if not printed:
            advantage += reward - values.average * step.duration - values.value(phi)
        self._climb(step.observation, step.polled, advantage)
        values.learn(phi, following, reward, step.duration)

    def _climb(self, observation: Observation, polled: NDArray[np.bool_], advantage: float) -> None:
        alive = observation.ceiling > 0
        if not alive.any():
            return
        step = self._settings.ascent / math.ceil((self.evaluation.steps + 1.0) / ASCENT_STEPS)
        psi, chance = observation.psi, self.poll_probabilities(observation)
        if self._settings.law == "independent":
            slope = score(chance, polled, self._settings)
        else:
            slope = (int(polled.sum()) * chance - polled) / self._settings.sharpness
        moved = self.coefficients + step * advantage / observation.scale * slope[:, None] * psi
        self.coefficients[alive] = projected(moved, psi, observation.low)[alive]

    def grow(self, positions: int) -> None:
        """Appends positions."""
        more = positions - len(self.coefficients)
        if more > 0:
            self._features = Features(positions)
            self.evaluation.grow(len(self._features))
            self.coefficients = np.concatenate([self.coefficients, self._fresh(more)])

    def forget(self, positions: NDArray[np.bool_]) -> None:
        """Resets the columns in `positions` (bool[positions])."""
        self.evaluation.forget(self._features.with_positions(positions))
        self.coefficients[positions] = self._fresh(1)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns the learned state that sites share, for `state_bytes.pack`; the coefficients belong to the sites."""
        return self.evaluation.state()

    def load(self, positions: int, kept: Mapping[str, NDArray[Any]]) -> None:
        """Restores the output of `state` for this number of positions; resets the coefficients."""
        self._features = Features(positions)
        self.evaluation.load(kept)
        self.coefficients = self._fresh(positions)
