"""Multi-armed bandits, the thesis's competitors for two pages ([B] 3.2, 5.3 and 7.2.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.gpoks.regression import Kernel, believe, index_set
from pollerd.allocation.learned_state import (
    all_sound,
    dump_rng,
    load_rng,
    own_generator,
    pack,
    pack_rows,
    same_form,
    unpack,
    unpack_rows,
)
from pollerd.allocation.periodic import Periodic
from pollerd.allocation.slots import MAX_POLLS, SlotTable, floats, put, whole
from pollerd.errors import InvalidValueError


class Arms(ABC):
    """m arms. A player's only data are `counts` float64[m] of pulls and `sums` float64[m] of their rewards.

    The subclass states the cost of a choice; an update costs O(1).
    """

    def __init__(self, number: int) -> None:
        self.counts = np.zeros(number)
        self.sums = np.zeros(number)

    @abstractmethod
    def choose(self, rng: np.random.Generator) -> int:
        """Returns the arm to pull next; the first on ties. Learns nothing."""

    def learn(self, arm: int, reward: float) -> None:
        """Records that the arm was pulled and gave the reward."""
        self.counts[arm] += 1.0
        self.sums[arm] += reward


# GP-UCB: arms on a line whose rewards are correlated by a Gaussian process ([B] 5.3 and its reference 46).

_DEVIATIONS = 2.0
_DIGITS = 9
"""Decimals to which bounds are compared: those of untried arms are equal up to rounding."""


class GpUcb(Arms):
    """Pulls the arm with the largest `mean + 2σ`. The arms are spaced evenly on [0, 1] without its ends; [B]'s kernel.

    A choice among m arms costs O(m r²) with the r features of the kernel on them, 7 for 99 arms (gpoks/regression.py).
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._index = index_set(np.arange(1, number + 1) / (number + 1), Kernel())

    def choose(self, rng: np.random.Generator) -> int:
        belief = believe(self._index, self.counts[None], self.sums[None])
        return int(np.round(belief.mean[0] + _DEVIATIONS * belief.deviation[0], _DIGITS).argmax())


# Thompson sampling of independent arms with Gaussian beliefs ([B] 3.3.1, (3.8), 7.2.2).

_PRIOR_MEAN = 0.7


class Thompson(Arms):
    """Pulls the arm with the largest draw from its belief; prior N(.7, .2) and rewards of variance .05, as in [B].

    The .2 is read as a variance, as everywhere else in [B] except its example 3.2. After n rewards with the sum S, [B]
    (3.8) applied n times, the belief about an arm is N(M, V) with

        1 / V = 1 / .2 + n / .05,   M = V (.7 / .2 + S / .05)

    A choice among m arms costs O(m).
    """

    prior_variance: ClassVar[float] = 0.2
    reward_variance: ClassVar[float] = 0.05

    def choose(self, rng: np.random.Generator) -> int:
        precision = 1.0 / self.prior_variance + self.counts / self.reward_variance
        mean = (_PRIOR_MEAN / self.prior_variance + self.sums / self.reward_variance) / precision
        return int((mean + rng.standard_normal(len(mean)) / np.sqrt(precision)).argmax())


# UCB-1: the arm with the highest upper confidence bound ([B] 3.2.1 and its reference 3).


def ucb1_bounds(counts: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `mean + sqrt(2 ln t / n)` of each arm after t pulls in all, float64[m]; inf for an arm never pulled."""
    pulled = np.maximum(counts, 1.0)
    total = max(float(counts.sum()), 1.0)
    return np.asarray(np.where(counts > 0, sums / pulled + np.sqrt(2 * np.log(total) / pulled), np.inf))


class Ucb1(Arms):
    """Pulls each arm once, in order, then the one with the highest bound: O(m) a choice among m arms."""

    def choose(self, rng: np.random.Generator) -> int:
        return int(ucb1_bounds(self.counts, self.sums).argmax())


# Bandits whose arms are splits of the budget between two sites: `ucb1`, `thompson`, `gp-ucb` ([B] 5.3.1, 7.2.2).

MAX_SITES = 2


@dataclass(frozen=True)
class MixtureSettings:
    """points: number of amounts from 0 to 1 for the splits, 3 to 1,001; the two ends are not arms."""

    points: int = 101

    def __post_init__(self) -> None:
        put(self, points=whole("points", self.points, 3, 1001))

    @property
    def amounts(self) -> NDArray[np.float64]:
        """Amount of the first site at each arm, float64[points - 2], from `1 / (points - 1)` up."""
        return np.arange(1, self.points - 1) / (self.points - 1)


class MixtureBandit(Periodic):
    """Pulls one of 99 arms, the splits (.01, .99) to (.99, .01), for each poll; earliest deadline first.

    The poll's result, 1 for a change and 0 for none, is the reward of the arm in use. With three sites there would be
    4,950 arms and with five 3.9 million ([B] table 5.2), so it accepts at most two sites; for a third, `add` and
    `admit` raise InvalidValueError. When a site is added or removed, the player starts over.

    A choice costs O(1), a poll one pull of one of m = points - 2 arms: O(m), with GP-UCB O(m r²) for its r features.
    Only for the objective `changes` and sites of equal weight and cost: others raise InvalidValueError. It does not
    estimate rates.
    """

    most_sites = MAX_SITES
    PLAYER: ClassVar[type[Arms]]
    _FIELDS = 0
    _VARYING = ("counts", "sums")

    def __init__(self, budget: float, settings: MixtureSettings, rng: np.random.Generator) -> None:
        super().__init__(budget)
        self._amounts = settings.amounts
        self._bit_generator, self._rng = own_generator(rng)
        self._nothing = np.zeros((0, 0))
        self._start()

    def _start(self) -> None:
        self._arms = self.PLAYER(len(self._amounts))
        self._arm = self._arms.choose(self._rng)

    # --- sites ---------------------------------------------------------------------------------------------------

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        self._slot_table.admit_at_most(MAX_SITES, slots, floats("weight", weight).size, self.NAME)
        super().admit(slots, weight, cost)

    def _forget(self, slots: NDArray[np.int64]) -> None:
        super()._forget(slots)
        if len(slots):
            self._start()

    def _grow(self, capacity: int) -> None:
        self._nothing = np.zeros((capacity, 0))

    def _rows(self) -> NDArray[np.float64]:
        return self._nothing

    # --- choosing and learning -----------------------------------------------------------------------------------

    def _periods(self) -> NDArray[np.float64]:
        slots, every = np.flatnonzero(self._slot_table.used), np.full(self._slot_table.n, np.inf)
        first = self._amounts[self._arm] if len(slots) == MAX_SITES else 1.0
        every[slots] = 1.0 / (self.budget * np.array([first, 1.0 - first])[: len(slots)])
        return every

    def _learn(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        for has_changed in changed.tolist():
            self._arms.learn(self._arm, float(has_changed))
            self._arm = self._arms.choose(self._rng)

    # --- storage -------------------------------------------------------------------------------------------------

    def _shared(self) -> dict[str, NDArray[Any]]:
        return {
            "arm": np.array([self._arm]),
            "counts": self._arms.counts,
            "sums": self._arms.sums,
            "random": dump_rng(self._bit_generator),
        }

    def _take_shared(self, kept: dict[str, NDArray[Any]]) -> None:
        number = len(self._amounts)
        counts, sums = kept["counts"], kept["sums"]
        if len(counts) != number or len(sums) != number or not 0 <= kept["arm"][0] < number:
            raise InvalidValueError("shared_state", f"{number} arms", f"{len(counts)} arms")
        if not ((sums >= 0) & (sums <= counts) & (counts <= MAX_POLLS)).all():
            raise InvalidValueError("shared_state", "rewards from 0 to 1 for each pull", "others")
        self._arm, self._arms.counts, self._arms.sums = int(kept["arm"][0]), counts, sums
        load_rng(self._bit_generator, kept["random"])


class Ucb1Splits(MixtureBandit):
    """Splits chosen by UCB-1.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("ucb1", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([1])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    NAME = "ucb1"
    PLAYER = Ucb1


class ThompsonSplits(MixtureBandit):
    """Splits chosen by Thompson sampling.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("thompson", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    NAME = "thompson"
    PLAYER = Thompson


class GpUcbSplits(MixtureBandit):
    """Splits chosen by GP-UCB, which treats neighbouring splits as similar.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("gp-ucb", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([1])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([nan, nan])
    """

    NAME = "gp-ucb"
    PLAYER = GpUcb


BANDITS: tuple[type[MixtureBandit], ...] = (Ucb1Splits, ThompsonSplits, GpUcbSplits)


# UCB-1 with the sites themselves as arms, `ucb1-raw` ([B] 7.2.2).

NAME, VERSION = "ucb1-raw", 1
_NEVER_POLLED = 1e9
"""Urgency of a site never polled."""
_NEVER_PULLED = 1e6
"""Urgency of a site with no informative poll yet: above every bound."""


class Ucb1Raw(Allocator):
    """Polls the site with the highest upper confidence bound on the share of its polls that found a change.

    It ignores how long ago a poll was, on which a page's reward depends: it stays with a page until its share has
    fallen below another's bound. [B] includes it to show just that. Any number of sites. A choice computes the bounds
    of all n sites, O(n); a poll costs O(1).

    Only for the objective `changes` and sites of equal weight and cost: others raise InvalidValueError. Of the evidence
    only `changed` is used, first polls teach nothing, and it does not estimate rates.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("ucb1-raw", budget=1.0, rng=np.random.default_rng(0))
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
        self._rows = np.zeros((0, 2))
        """Number of polls of each site, and of those that found a change."""

    def admit(self, slots: NDArray[np.int64], weight: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
        self._slot_table.admit_equal(slots, weight, cost, NAME)

    def add(
        self,
        slots: NDArray[np.int64],
        weight: NDArray[np.float64],
        cost: NDArray[np.float64],
        half_life: NDArray[np.float64] | None = None,
        deadline: NDArray[np.float64] | None = None,
    ) -> None:
        self.admit(slots, weight, cost)
        slots = self._slot_table.add(slots, weight, cost, half_life, deadline)
        self._rows = np.concatenate([self._rows, np.zeros((self._slot_table.capacity - len(self._rows), 2))])
        self._rows[slots] = 0.0

    def remove(self, slots: NDArray[np.int64]) -> None:
        self._rows[self._slot_table.remove(slots)] = 0.0

    def urgency(self, elapsed: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        elapsed = self._slot_table.check_elapsed(elapsed)
        out, n = np.full(len(elapsed), -np.inf), self._slot_table.n
        bounds = np.minimum(ucb1_bounds(self._rows[:n, 0], self._rows[:n, 1]), _NEVER_PULLED)
        bounds = np.where(np.isposinf(elapsed[:n]), _NEVER_POLLED, bounds)
        out[:n] = np.where(self._slot_table.used[:n], bounds, -np.inf)
        return out

    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        slots, elapsed = self._slot_table.check_polls(slots, elapsed, evidence)
        informative = np.isfinite(elapsed)
        np.add.at(
            self._rows,
            slots[informative],
            np.column_stack([np.ones(int(informative.sum())), evidence.changed[informative]]),
        )

    def rates(self) -> NDArray[np.float64]:
        return np.full(self._slot_table.n, np.nan)

    def site_state(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns the version, the number of polls, and of those that found a change."""
        slots = self._slot_table.known(slots)
        return pack_rows(self._rows[slots], version=VERSION)

    def shared_state(self) -> bytes:
        return pack(NAME, VERSION, {})

    def restore(self, slots: NDArray[np.int64], site_state: NDArray[np.uint8], shared_state: bytes) -> None:
        slots = self._slot_table.known(slots)
        same_form(unpack(NAME, VERSION, shared_state), {})
        rows = unpack_rows(NAME, site_state, len(slots), self._rows.shape[1], version=VERSION)
        polls, changes = rows.T
        all_sound(NAME, "no more changes than polls", (changes >= 0) & (changes <= polls) & (polls <= MAX_POLLS), rows)
        self._rows[slots] = rows
