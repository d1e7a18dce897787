"""Exploration under `interest`, in which polls have to be spent to learn if news fades quickly.

With half-lives far below the uniform cycle few pages are worth their polls, and a learner that goes by mean rates keeps
polling the first good ones it found: the others look average and are hardly ever polled again. So each page has an
exploration bonus, its claim, for how much its value may exceed the price θ of a poll. A page of amplitude A > θ yields
A - θ more with each poll spent on it, up to X polls a second. It is assumed to do so for a share of the time since its
last poll: so the cost of exploration stays small relative to its return, disappointing pages are polled at ever longer
gaps, and no horizon has to be known. With rate λ and gap τ:

    claim(τ) = E[(A(λ) - θ)+] · X · ahead · τ,   u = (index + claim) / θ,   index' = max(index, 2 θ u / (1 + u))
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AHEAD = 0.02
"""Assumed duration of the gain from a better page, as a share of the time since its last poll."""
_AHEAD_AT_FIRST = 0.1
"""The same share for a page never polled, for which a poll is most informative."""
_STEP = 0.02
"""Relative step of the price per poll."""
_SAME_PRICE = 0.25
"""Change of the logarithm of the price above which the index is updated."""


def ahead(observed: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns shares float64[k] of the time since the last poll, for pages observed float32[k] times."""
    return np.maximum(_AHEAD, _AHEAD_AT_FIRST / (1.0 + observed.astype(np.float64)))


class Exploration:
    """Tracks the price of a poll: the median of the indices at which sites were polled.

    `price` moves in steps; 0 before the first poll: no exploration.
    """

    def __init__(self) -> None:
        self.price = 0.0
        self._followed = 0.0

    def observe(self, index: NDArray[np.float64]) -> bool:
        """Updates with the indices float64[k] >= 0 without bonuses at which sites were polled, in order.

        Returns whether `price` moved.
        """
        for value in index.tolist():
            if not self._followed:
                self._followed = value
            else:
                self._followed *= math.exp(_STEP if value > self._followed else -_STEP)
        if not self._followed or (self.price and abs(math.log(self._followed / self.price)) < _SAME_PRICE):
            return False
        self.price = self._followed
        return True

    def with_claims(
        self,
        index: NDArray[np.float64],
        better: NDArray[np.float64],
        polls: NDArray[np.float64],
        value_per_cost: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Returns the indices float64[k] with the bonuses, float64[k].

        index, better (E[(A - θ)+]) float64[k] for a value of 1; polls float64[k] (X ahead τ); value_per_cost float64[k]
        >= 0.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            price = self.price / value_per_cost
            many = (index + better * polls) / price
            claimed = np.where(price < np.inf, 2.0 * price * many / (1.0 + many), 0.0)
        return np.fmax(index, claimed)

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns arrays for storage."""
        return {"price": np.array([self.price, self._followed])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores the output of `state`."""
        self.price, self._followed = (float(x) for x in arrays["price"])
