"""Polling in proportion to how often pages change ([A] 4.3.1, Proportional)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.baselines.rate_based import Rated, in_proportion


class Proportional(Rated):
    """Frequencies in proportion to `p_i = 1 - e^{-λ_i step}`, the probability that page i changes within one step.

    The optimum for `changes` is in proportion to λ_i: the two differ if pages change at nearly every step. With `rates`
    these are the λ; without, as in the live daemon, which does not know the true rates, they are estimated from the
    polls.

    A choice is one pass over all n sites, O(n). A poll costs O(1), plus its part of the O(n) for new periods after
    every n polls; given rates cost nothing. Only for the objective `changes` and sites of equal weight and cost: others
    raise InvalidValueError.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("proportional", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([0.137, 0.347])
    """

    NAME = "proportional"

    def __init__(self, budget: float, rates: NDArray[np.float64] | None = None, step: float = 0.0) -> None:
        super().__init__(budget, rates, step)

    def _split(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        return in_proportion(-np.expm1(-rates * self._step()), self.budget)
