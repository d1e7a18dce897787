"""Baselines: uniform, proportional and optimal polling, and an estimator of rates ([A] 4.3.1).

Their periods follow from rates, either given true rates or estimates from the polls.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.finite_feeds import split_with_feeds
from pollerd.allocation.index import amplitude_and_rate, decay_rates, solve_price
from pollerd.allocation.learned_state import all_sound, not_negative_count, pack, same_form, unpack
from pollerd.allocation.objectives import TimelySites, deadlines
from pollerd.allocation.periodic import Periodic
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, TIMELY
from pollerd.allocation.slots import (
    FIELDS,
    MEMORY_POLLS,
    SOUND,
    PollCounts,
    SlotTable,
    column,
    finite,
    floats,
    positive_or_0,
    rate_without_polls,
    whole,
)
from pollerd.errors import InvalidValueError

_SLOWEST, _FASTEST = 1e-100, 1e100
"""Bounds of the estimates, 1/s."""


class Rated(Periodic):
    """Periods from rates.

    true_rates: changes per second by slot, float64[>= slots], >= 0; then polls teach nothing, and slots beyond them are
    refused. None: rates are estimated from the last 64 to 128 polls of each site (`PollCounts`). Periods are updated
    from the estimates after as many polls as there are sites. step: s between two polls, 0: 1 / budget.
    """

    _FIELDS = len(FIELDS) + 1

    def __init__(
        self, budget: float, true_rates: NDArray[np.float64] | None, step: float, memory: float = MEMORY_POLLS
    ) -> None:
        super().__init__(budget)
        self._true_rates = (
            None if true_rates is None else column("rates", true_rates, floats("rates", true_rates).size, zero=True)
        )
        self._step_s = positive_or_0("step", step)
        self._poll_counts = PollCounts(memory)
        self._learned = np.zeros((0, self._FIELDS))
        """The fields of `PollCounts`, and the rate behind the site's period; 0: the initial rate."""
        self._polls_since = 0
        self._every: NDArray[np.float64] | None = None
        """Periods of slots 0..n-1, for the budget `_every_for`; None: to be computed."""
        self._every_for = 0.0

    @abstractmethod
    def _split(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the seconds between polls of slots 0..n-1 for rates float64[n], which are 0 for empty slots."""

    def _step(self) -> float:
        """Returns the seconds between two polls."""
        return self._step_s or 1.0 / self.budget

    def _cycle(self) -> float:
        """Returns the seconds in which every site is polled once."""
        return self._step() * max(self._slot_table.size, 1)

    # --- rates ---------------------------------------------------------------------------------------------------

    def rates(self) -> NDArray[np.float64]:
        n = self._slot_table.n
        rates = self._estimates() if self._true_rates is None else self._true_rates[:n]
        return np.where(self._slot_table.used[:n], rates, np.nan)

    def _estimates(self) -> NDArray[np.float64]:
        return self._poll_counts.rates(self._slot_table.n, self._cycle())

    def _periods(self) -> NDArray[np.float64]:
        if self._every is None or self._every_for != self.budget:
            n = self._slot_table.n
            rates = self._adopted_rates(n) if self._true_rates is None else self._true_rates[:n]
            self._every = self._split(np.where(self._slot_table.used[:n], rates, 0.0))
            self._every_for = self.budget
        return self._every

    def _adopted_rates(self, n: int) -> NDArray[np.float64]:
        adopted = self._learned[:n, -1]
        return np.where(adopted > 0, adopted, rate_without_polls(self._cycle()))

    def _learn(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        if self._true_rates is not None:
            return
        self._poll_counts.note(slots, elapsed, changed)
        self._polls_since += len(slots)
        if self._polls_since >= self._slot_table.size:
            self._adopt_rates()

    def _adopt_rates(self) -> None:
        """Bases the periods on the current rate estimates from now on."""
        n = self._slot_table.n
        polled = self._learned[:n, 0] > 0
        self._learned[:n, -1] = np.where(polled, self._estimates(), 0.0)
        self._polls_since, self._every = 0, None

    # --- rows ----------------------------------------------------------------------------------------------------

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        super().admit(slots, weight, cost)
        if self._true_rates is not None and np.max(slots, initial=-1) >= len(self._true_rates):
            raise InvalidValueError(
                "rates", f"one for each slot, up to {int(np.max(slots))}", f"{len(self._true_rates)} rates"
            )

    def _grow(self, capacity: int) -> None:
        self._learned = np.concatenate([self._learned, np.zeros((capacity - len(self._learned), self._FIELDS))])
        self._poll_counts.rows = self._learned[:, :-1]

    def _rows(self) -> NDArray[np.float64]:
        return self._learned

    def _check(self, rows: NDArray[np.float64]) -> None:
        all_sound(self.NAME, SOUND, self._poll_counts.sound(rows[:, :-1]), rows)
        adopted = rows[:, -1]
        sound = (adopted == 0) | ((adopted >= _SLOWEST) & (adopted <= _FASTEST))
        all_sound(self.NAME, f"a rate of 0 or from {_SLOWEST:g} to {_FASTEST:g} per s", sound, adopted)

    def _resized(self) -> None:
        self._every = None

    def _shared(self) -> dict[str, NDArray[Any]]:
        return {"polls_since": np.array([self._polls_since])}

    def _take_shared(self, kept: dict[str, NDArray[Any]]) -> None:
        self._polls_since = not_negative_count("polls_since", kept)


def in_proportion(amounts: NDArray[np.float64], budget: float) -> NDArray[np.float64]:
    """Returns periods in s for frequencies in proportion to amounts float64[n] >= 0; inf where the amount is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scaled = budget * amounts
        # beyond 1e308 the quotients are taken one after the other; below, the rounding stays as it always was
        every = np.where(np.isfinite(scaled), amounts.sum() / scaled, amounts.sum() / amounts / budget)
        return np.where(amounts > 0, every, np.inf)


# Round robin: the site that was polled longest ago comes first ([A] 4.3.1, Uniform).


class Uniform(Allocator):
    """Polls all sites equally often. Weights, costs and evidence are ignored; rates are nan.

    The objective is ignored too: equal shares do not depend on it. Every site has the period n / budget, for n sites of
    cost 1. A choice is one pass over all sites, O(n); a poll teaches nothing.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("uniform", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    def __init__(self, budget: float) -> None:
        super().__init__(budget)
        self._slot_table = SlotTable()

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None = None,
        deadline: NDArray[np.float64] | None = None,
    ) -> None:
        self._slot_table.add(slots, weight, cost, half_life, deadline)

    def remove(self, slots: NDArray[np.int64]) -> None:
        self._slot_table.remove(slots)

    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        elapsed = self._slot_table.check_elapsed(elapsed)
        out = np.full(len(elapsed), -np.inf)
        n = self._slot_table.n
        out[:n] = np.where(self._slot_table.used[:n], finite(elapsed[:n]), -np.inf)
        return out

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        self._slot_table.check_polls(slots, elapsed, evidence)

    def rates(self) -> NDArray[np.float64]:
        return np.full(self._slot_table.n, np.nan)

    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.empty((len(self._slot_table.known(slots)), 0), np.uint8)

    def shared_state(self) -> bytes:
        return pack("uniform", 1, {})

    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        slots = self._slot_table.known(slots)
        if site_state.shape != (len(slots), 0):
            raise InvalidValueError("site_state", f"uint8[{len(slots)}, 0]", site_state.shape)
        same_form(unpack("uniform", 1, shared_state), {})


# Polling in proportion to how often pages change ([A] 4.3.1, Proportional).


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


# Uniform polling to estimate rates, then polling in proportion to the estimates ([A] 4.3.1, Estimator).

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


# Optimal split of the budget for known rates, by Lagrange multipliers ([A] 4.3.1, Optimal).


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
        if self.counts_items and not self._slot_table.is_default("items_shown"):
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
