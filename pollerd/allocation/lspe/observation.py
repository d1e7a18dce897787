"""Input of the learner of [D]: the states of the sites at one epoch, and the transition of one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.thresholds import basis

_COLUMNS = ("filled", "ceiling", "low")


@dataclass(frozen=True)
class Observation:
    """State at each position, float64[positions]; free positions have 0.

    filled: x/u*, in [0, 1] unless states are drawn. ceiling: u*, the mean state without polls. low: u/u*.
    """

    filled: NDArray[np.float64]
    ceiling: NDArray[np.float64]
    low: NDArray[np.float64]

    @property
    def waiting(self) -> NDArray[np.float64]:
        """X, the interest that waits at each position."""
        return self.filled * self.ceiling

    @property
    def scale(self) -> float:
        """Mean of all u* above 0; 1 if there is none."""
        alive = self.ceiling > 0
        return float(self.ceiling[alive].mean()) if alive.any() else 1.0

    @property
    def psi(self) -> NDArray[np.float64]:
        """ψ at each position, float64[positions, 3], with the sums in units of the sum of all ceilings."""
        return basis(self.waiting / max(float(self.ceiling.sum()), float(np.finfo(np.float64).tiny)))


@dataclass(frozen=True)
class Transition:
    """An observation, the positions polled in it (bool[positions]), the reward, and the budget time used."""

    observation: Observation
    polled: NDArray[np.bool_]
    collected: float
    duration: float = 1.0

    def with_positions(self, positions: int) -> Self:
        """Returns a copy with free positions appended."""
        more = positions - len(self.polled)
        observation = Observation(*(np.append(getattr(self.observation, name), np.zeros(more)) for name in _COLUMNS))
        return replace(self, observation=observation, polled=np.append(self.polled, np.zeros(more, np.bool_)))

    def without(self, positions: NDArray[np.bool_]) -> Self:
        """Returns a copy with bool[positions] free."""
        observation = Observation(*(np.where(positions, 0.0, getattr(self.observation, name)) for name in _COLUMNS))
        return replace(self, observation=observation, polled=self.polled & ~positions)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for `state_bytes.pack`."""
        columns = {name: getattr(self.observation, name) for name in _COLUMNS}
        return {**columns, "polled": self.polled, "step": np.array([self.collected, self.duration])}

    @classmethod
    def empty(cls, positions: int) -> Self:
        """Creates a transition with this number of free positions."""
        nothing = np.zeros(positions)
        return cls(Observation(nothing, nothing, nothing), np.zeros(positions, np.bool_), 0.0)

    @classmethod
    def load(cls, kept: Mapping[str, NDArray[Any]]) -> Self:
        """Restores the output of `state`."""
        collected, duration = (float(number) for number in kept["step"])
        return cls(Observation(*(kept[name] for name in _COLUMNS)), kept["polled"], collected, duration)
