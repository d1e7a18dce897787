"""Exploration under `interest`: a poll also teaches, and where news fades quickly nothing else brings that poll about.

With half-lives far below the uniform cycle few pages are worth their polls, and a learner that goes by mean rates stays
with the first good ones it met: the others look like the average and are never polled again, if ever. So a page has a
claim by how much better than the price θ of a poll it may turn out to be. A page of amplitude A > θ brings A - θ more
with each poll spent on it, up to X polls a second. It is taken to do so for a share of the time it was left alone: what
is spent on looking stays small beside what it has brought, pages that disappoint are asked at ever longer gaps, and no
horizon has to be known.

    claim(τ) = E[(A(λ) - θ)+] · X · ahead · τ,   u = (index + claim) / θ,   index' = max(index, 2 θ u / (1 + u))
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AHEAD = 0.02
"""For how long a better page is taken to bring more, as a share of the time it was left alone, ..."""
_AHEAD_AT_FIRST = 0.1
"""... and for how long a page never asked, which a poll teaches most."""
_STEP = 0.02
"""By so much of itself the price follows each poll."""
_SAME_PRICE = 0.25
"""Logarithm by which the price may move before the index goes by it."""


def ahead(observed: NDArray[np.float32]) -> NDArray[np.float64]:
    """Shares float64[k] of the time that pages were left alone, of pages observed float32[k] times."""
    return np.maximum(_AHEAD, _AHEAD_AT_FIRST / (1.0 + observed.astype(np.float64)))


class Exploration:
    """Follows the price of a poll: the median of the indices at which sites were polled.

    `price` moves in steps; 0 before the first poll, when nobody explores.
    """

    def __init__(self) -> None:
        self.price = 0.0
        self._followed = 0.0

    def observe(self, index: NDArray[np.float64]) -> bool:
        """Takes in the indices float64[k] >= 0 without claims at which sites were polled, in order.

        Says whether `price` moved.
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
        """The indices float64[k] with the claims, float64[k].

        index, better (E[(A - θ)+]) float64[k] for a worth of 1; polls float64[k] (X ahead τ); worth float64[k] >= 0.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            price = self.price / value_per_cost
            many = (index + better * polls) / price
            claimed = np.where(price < np.inf, 2.0 * price * many / (1.0 + many), 0.0)
        return np.fmax(index, claimed)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays for storage."""
        return {"price": np.array([self.price, self._followed])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Puts back what `state` gave."""
        self.price, self._followed = (float(x) for x in arrays["price"])
