"""Optimal split of the budget for known rates, by Lagrange multipliers ([A] 4.3.1, Optimal)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.baselines.rate_based import Rated, in_proportion
from pollerd.allocation.core.index import amplitude_and_rate, decay_rates, solve_price
from pollerd.allocation.core.objectives.finite_split import split_with_feeds
from pollerd.allocation.core.objectives.priced_sites import deadlines
from pollerd.allocation.core.objectives.timely_sites import TimelySites
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, TIMELY


class Optimal(Rated):
    """Gives every site the period at which the value of one more poll equals the shadow price θ (`index.solve_price`).

    For `changes` with equal weights, at cost 1, that is `x_i = c λ_i / Σλ` (all `λ_i / x_i` are then equal): 15 ms at
    10^6 sites. Else θ is solved for, 7 s to a minute there, each time that there were as many polls as sites.

    Under `delay` the periods are in proportion to sqrt(C / (w λ)); under `deadline` each of the sites with the largest
    w λ D / C is polled once in its deadline D, and the others never.

    Under `interest` it knows which sites show only their newest M items (`set_items_shown`), and goes by their index.

    For every objective, and for any weights and costs. With `rates` these are the true λ, and it is the clairvoyant
    that others are compared with. Without, as in the live daemon, which does not know the true rates, it uses estimates
    from the polls as if they were true: under `freshness` a site whose rate is overestimated may never be polled again,
    and stay overestimated; `whittle` does not have this problem.

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
    polls_at_price = True
    _EQUAL_ONLY = False

    def __init__(
        self,
        budget: float,
        objective: str,
        rates: NDArray[np.float64] | None = None,
        step: float = 0.0,
        deadline: float = DEFAULT_DEADLINE_S,
    ) -> None:
        super().__init__(budget, rates, step)
        self._objective, self._deadline = objective, deadline
        self.counts_items = objective == "interest"

    def set_items_shown(self, slots: NDArray[np.int64], items: NDArray[np.float64]) -> None:
        self._slot_table.set_items_shown(slots, items)
        if self.counts_items:
            self._resized()

    def _split(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        n = len(rates)
        if self._objective == "changes" and self._equal(n):
            return in_proportion(rates, self.budget)
        if self._objective in TIMELY:
            return self._timely_sites(rates).split(self.budget)[1]
        weight, cost, half_life = self._slot_table.weight[:n], self._slot_table.cost[:n], self._slot_table.half_life[:n]
        if self.counts_items and not self._slot_table.is_as_ever("items_shown"):
            items = self._slot_table.items_shown[:n]
            if not np.isnan(items).all():
                weight = np.where(self._slot_table.used[:n], weight, 0.0)
                return split_with_feeds(self.budget, rates, decay_rates(half_life), items, weight, cost)[1]
        amplitude, rate = amplitude_and_rate(self._objective, rates, weight, half_life)
        amplitude = np.where(self._slot_table.used[:n], amplitude, 0.0)
        return solve_price(self.budget, amplitude, rate, cost)[1]

    def _timely_sites(self, rates: NDArray[np.float64]) -> TimelySites:
        n, table = len(rates), self._slot_table
        weighted_rate = np.where(table.used[:n], table.weight[:n] * rates, 0.0)
        due = deadlines(table.deadline[:n], self._deadline) if self._objective == "deadline" else None
        return TimelySites(weighted_rate, table.cost[:n], np.zeros(n), due)

    def _equal(self, n: int) -> bool:
        """Returns whether all sites have the same weight > 0 and cost 1: then the optimal split has a closed form."""
        used = self._slot_table.used[:n]
        weight, cost = self._slot_table.weight[:n][used], self._slot_table.cost[:n][used]
        return bool(len(weight) and weight[0] > 0 and (weight == weight[0]).all() and (cost == 1.0).all())
