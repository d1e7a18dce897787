"""The best split of the budget for known rates, by Lagrange multipliers ([A] 4.3.1, Optimal)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.baselines.rate_based import Rated, in_proportion
from pollerd.allocation.core.index import amplitude_and_rate, solve_price


class Optimal(Rated):
    """Every site has the period at which one more poll of it is worth the common price θ (`index.solve_price`).

    For `changes` with equal weights, at cost 1, that is `x_i = c λ_i / Σλ` (all `λ_i / x_i` are then the same): 15 ms
    at 10^6 sites. Else θ is sought, 7 s to a minute there, each time that there were as many polls as sites.

    For every objective, and for any weights and costs. With `rates` these are the true λ, and it is the clairvoyant
    that others are measured against. Without, as in the live daemon, where truth is not known, the rates that the polls
    tell stand in their place as if they were true: under `freshness` a site whose rate is over-estimated may get no
    poll any more, and stay over-estimated; `whittle` is free of that.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("optimal", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([0.137, 0.347])
    """

    NAME = "optimal"
    _EQUAL_ONLY = False

    def __init__(
        self, budget: float, objective: str, rates: NDArray[np.float64] | None = None, step: float = 0.0
    ) -> None:
        super().__init__(budget, rates, step)
        self._objective = objective

    def _split(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        n = len(rates)
        if self._objective == "changes" and self._equal(n):
            return in_proportion(rates, self.budget)
        weight, cost, half_life = self._slot_table.weight[:n], self._slot_table.cost[:n], self._slot_table.half_life[:n]
        amplitude, rate = amplitude_and_rate(self._objective, rates, weight, half_life)
        amplitude = np.where(self._slot_table.used[:n], amplitude, 0.0)
        return solve_price(self.budget, amplitude, rate, cost)[1]

    def _equal(self, n: int) -> bool:
        """Whether all sites have one weight above 0 and one cost of 1: the best split is then in closed form."""
        used = self._slot_table.used[:n]
        weight, cost = self._slot_table.weight[:n][used], self._slot_table.cost[:n][used]
        return bool(len(weight) and weight[0] > 0 and (weight == weight[0]).all() and (cost == 1.0).all())
