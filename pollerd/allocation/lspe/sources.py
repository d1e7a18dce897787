"""Dynamics of the interest that waits at a site from one epoch to the next ([E] 2): decay and new items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.slots.validation import column, positive
from pollerd.errors import InvalidValueError


@dataclass(frozen=True)
class Sources:
    """n sites of ephemeral content, polled at multiples of one epoch.

    arrivals Λ float64[n], items per second >= 0; value ξ float64[n] >= 0, an item's mean interest when it appears;
    decay μ float64[n] > 0, per second; cost C float64[n] > 0 of a poll, None: all 1; epoch T > 0 in s ([E] measures
    time in epochs, T = 1). Raises InvalidValueError for others.
    """

    arrivals: NDArray[np.float64]
    value: NDArray[np.float64]
    decay: NDArray[np.float64]
    cost: NDArray[np.float64] = None  # type: ignore[assignment]
    epoch: float = 1.0

    def __post_init__(self) -> None:
        given: NDArray[np.float64] | None = self.cost
        n = np.size(self.arrivals)
        columns = {
            "arrivals": column("arrivals", self.arrivals, n, zero=True),
            "value": column("value", self.value, n, zero=True),
            "decay": column("decay", self.decay, n),
            "cost": np.ones(n) if given is None else column("cost", given, n),
            "epoch": positive("epoch", self.epoch),
        }
        for name, values in columns.items():
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.arrivals)

    @property
    def retained(self) -> NDArray[np.float64]:
        """`α = e^(-μT)`, the share of its interest that an item keeps over an epoch, float64[n]."""
        return np.asarray(np.exp(-self.decay * self.epoch))

    @property
    def ceiling(self) -> NDArray[np.float64]:
        """`u* = u / (1 - α) = Λξ/μ`, the mean interest at a site that is never polled, float64[n].

        The amplitude A of the index for the objective `interest` (theory.md 1).
        """
        return np.asarray(self.arrivals * self.value / self.decay)

    @property
    def gain(self) -> NDArray[np.float64]:
        """`u = (Λξ/μ)(1 - e^(-μT))`, the mean interest that one epoch adds, float64[n] ([E] equation 1)."""
        return np.asarray(-self.ceiling * np.expm1(-self.decay * self.epoch))

    def after(self, epochs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns `x = u*(1 - α^η)`, the mean interest η >= 0 epochs after a poll, broadcast; [E] equation 15."""
        return np.asarray(-self.ceiling * np.expm1(-self.decay * self.epoch * epochs))

    def next_states(
        self, state: NDArray[np.float64], polled: NDArray[np.bool_], gain: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Returns X(t+1) for X(t) = state, all [..., n]: `α X + U` where not polled, `U` where polled.

        With gain `self.gain` the dynamics are deterministic ([E] equations 2 and 3); with drawn gains stochastic (19).
        """
        state = np.asarray(state, np.float64)
        if state.shape[-1] != len(self):
            raise InvalidValueError("state", f"{len(self)} sites in the last axis", state.shape)
        return np.asarray(np.where(polled, 0.0, self.retained * state) + gain)
