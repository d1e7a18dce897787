"""Uniform polling to estimate rates, then polling in proportion to the estimates ([A] 4.3.1, Estimator)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.baselines.rate_based import Rated, in_proportion
from pollerd.allocation.slots.state_bytes import not_negative_count
from pollerd.allocation.slots.validation import whole

POLLS_A_SITE = 10


class Estimator(Rated):
    """In the estimation phase all sites are polled equally often; after it in proportion to the estimated `p_i`.

    phase: polls of all sites together, >= 0; None: ten for each site. From all the polls of a site in the phase, with m
    changes, Q seconds of gaps without and B seconds of gaps with a change, the estimate is

        p = 1 - e^{-λ step},   λ = ln(1 + B / Q) m / B

    which is the maximum likelihood estimate if all gaps with a change have their mean length, `PollCounts.rates`:
    nearly true in the phase, in which all sites have one period. Half a poll with and half a poll without a change,
    after a uniform cycle each, count in m, B and Q, so that no p is 0 or 1. After the phase the estimate is fixed, as
    in [A]: it does not follow a drifting rate. A site added later learns until it has had as many polls as the phase
    gave the others.

    A choice is one pass over all n sites, O(n). A poll costs O(1), plus its part of the O(n) for new periods after
    every n informative polls. Only for the objective `changes` and sites of equal weight and cost: others raise
    InvalidValueError.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("estimator", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([0.137, 0.347])
    """

    NAME = "estimator"

    def __init__(self, budget: float, phase: int | None = None, step: float = 0.0) -> None:
        super().__init__(budget, None, step, memory=math.inf)
        self._phase = None if phase is None else whole("phase", phase, 0, 2**53 - 1)
        self._polls = 0

    def _in_phase(self) -> bool:
        each = POLLS_A_SITE * self._slot_table.size
        return self._polls < (each if self._phase is None else self._phase)

    def _share_of_phase(self) -> float:
        """Returns the number of polls of one site in the phase."""
        return POLLS_A_SITE if self._phase is None else self._phase / max(self._slot_table.size, 1)

    def _split(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._in_phase():
            return np.full(len(rates), self._slot_table.size / self.budget)
        return in_proportion(-np.expm1(-rates * self._step()), self.budget)

    def _learn(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        before = self._in_phase()
        open_ = before | (self._learned[slots, 0] < self._share_of_phase())
        super()._learn(slots[open_], elapsed[open_], changed[open_])
        self._polls += len(slots)
        if before and not self._in_phase():
            self._adopt_rates()

    def _shared(self) -> dict[str, NDArray[Any]]:
        return {**super()._shared(), "polls": np.array([self._polls])}

    def _take_shared(self, kept: dict[str, NDArray[Any]]) -> None:
        super()._take_shared(kept)
        self._polls = not_negative_count("polls", kept)
